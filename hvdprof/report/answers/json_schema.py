"""The JSON Schema of what ``hvdprof analyze`` writes as JSON, made of what declares it."""

import dataclasses
import types
import typing
from collections.abc import Sequence
from enum import Enum

from hvdprof.model.job_losses import LossCost
from hvdprof.model.notes import Note
from hvdprof.model.run import FailedSegment, Verdict
from hvdprof.model.schema import Table
from hvdprof.model.table_catalogue import TABLES
from hvdprof.report.answers.files import FILES_SCHEMA_VERSION
from hvdprof.report.document.json_report import JSON_SCHEMA_VERSION, KEYS_OF_THEIR_OWN
from hvdprof.report.json_values import JsonObject, JsonValue
from hvdprof.rundir.manifest import Skipped
from hvdprof.rundir.stopping import Stop

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_TEXT: JsonObject = {"type": "string"}
_TEXT_OR_NULL: JsonObject = {"type": ["string", "null"]}
_WHOLE: JsonObject = {"type": "integer"}
_TYPES: dict[str, JsonValue] = {
    "category": "string",
    "str": "string",
    "int32": "integer",
    "int64": "integer",
    "Int32": ["integer", "null"],
    "Int64": ["integer", "null"],
    "float64": ["number", "null"],
    "bool": "boolean",
    "boolean": ["boolean", "null"],
}


def json_schema() -> JsonObject:
    """The schema, draft 2020-12: the analysis of a run directory, or of files.

    Every key that is written is required. Further keys are allowed: later versions may add some.
    Units of columns stand as ``x-unit``.
    """
    return {
        "$schema": DIALECT,
        "title": "hvdprof analyze --format json",
        "x-schema-version": {"run": JSON_SCHEMA_VERSION, "files": FILES_SCHEMA_VERSION},
        "oneOf": [_named("run_analysis"), _named("files_analysis")],
        "$defs": {
            "run_analysis": _run_analysis(),
            "files_analysis": _object(
                {
                    "schema_version": {"const": FILES_SCHEMA_VERSION},
                    "verdicts": _list(_TEXT),
                    "caveats": _list(_TEXT),
                    "files": _list(_named("file")),
                    "tables": _tables(TABLES),
                    "row_counts": _by_name(_WHOLE),
                    "notes": _list(_TEXT),
                }
            ),
            "file": _object(
                {
                    "file": _TEXT,
                    "kind": _TEXT,
                    "size_bytes": _WHOLE,
                    "verdict": _TEXT_OR_NULL,
                    "caveat": _TEXT_OR_NULL,
                    "left_out": _TEXT_OR_NULL,
                    "facts": _by_name({"type": ["string", "number", "null"]}),
                    "unanswered": _list(_object({"question": _TEXT, "command": _TEXT})),
                }
            ),
            "note": _fields(Note),
            **{f"row_of_{table.name}": _row(table) for table in TABLES},
        },
    }


def _run_analysis() -> JsonObject:
    skipped = _properties(Skipped)
    skipped["np"] = skipped.pop("size")
    verdict = _properties(Verdict, without=("parts", "loss_cost"))
    verdict |= {"loss_cost": _or_null(LossCost), "caveat": _TEXT}
    others = [table for table in TABLES if table.name not in KEYS_OF_THEIR_OWN]
    own = {table.name: _rows(table) for table in TABLES if table.name in KEYS_OF_THEIR_OWN}
    return _object(
        {
            "schema_version": {"const": JSON_SCHEMA_VERSION},
            "verdict": _object(verdict),
            **own,
            "skipped": _list(_object(skipped)),
            "failed": _list(_fields(FailedSegment)),
            "files": _list(_named("file")),
            "warnings": _list(_TEXT),
            "warning_notes": _list(_named("note")),
            "tables": _tables(others),
            "row_counts": _by_name(_WHOLE),
            "run": _object(
                {
                    "folder": _TEXT,
                    "name": _TEXT,
                    "created_at": _TEXT,
                    "stop": _or_null(Stop),
                    "versions": _by_name(_TEXT),
                }
            ),
        }
    )


def _tables(tables: Sequence[Table]) -> JsonObject:
    """Rows by the name of their table; none of them has to be there."""
    return {"type": "object", "properties": {table.name: _rows(table) for table in tables}}


def _rows(table: Table) -> JsonObject:
    return _list(_named(f"row_of_{table.name}"))


def _row(table: Table) -> JsonObject:
    columns: JsonObject = {}
    for column in table.columns:
        unit: JsonObject = {"x-unit": column.unit} if column.unit else {}
        columns[column.name] = {
            "type": _TYPES[column.dtype],
            "description": column.doc.replace("NaN", "null"),
            **unit,
        }
    return {"description": table.doc, **_object(columns)}


def _fields(declared: type) -> JsonObject:
    return _object(_properties(declared))


def _or_null(declared: type) -> JsonObject:
    return {"anyOf": [_fields(declared), {"type": "null"}]}


def _properties(declared: type, without: Sequence[str] = ()) -> JsonObject:
    """The fields of a dataclass as they are written."""
    if not dataclasses.is_dataclass(declared):
        raise TypeError(f"{declared} is no dataclass")
    hints = typing.get_type_hints(declared)
    names = (field.name for field in dataclasses.fields(declared))
    return {name: _of_hint(hints[name]) for name in names if name not in without}


def _of_hint(hint: object) -> JsonValue:
    """What a value of that type is in JSON; a float that is not finite is null.

    Raises:
        TypeError: No field has had that type so far.
    """
    if hint is Note:
        return _named("note")
    if typing.get_origin(hint) is tuple:
        return _list(_of_hint(typing.get_args(hint)[0]))
    if isinstance(hint, types.UnionType):
        return {"type": [*sorted({name for one in hint.__args__ for name in _names(one)})]}
    return {"type": names[0] if len(names := _names(hint)) == 1 else [*names]}


def _names(hint: object) -> tuple[str, ...]:
    if hint is type(None):
        return ("null",)
    if hint is float:
        return ("number", "null")
    if isinstance(hint, type) and issubclass(hint, str | Enum):
        return ("string",)
    if hint in (bool, int):
        return ("boolean" if hint is bool else "integer",)
    raise TypeError(f"{hint} has no form in the schema")


def _object(properties: JsonObject) -> JsonObject:
    return {"type": "object", "required": [*properties], "properties": properties}


def _list(items: JsonValue) -> JsonObject:
    return {"type": "array", "items": items}


def _by_name(values: JsonValue) -> JsonObject:
    return {"type": "object", "additionalProperties": values}


def _named(name: str) -> JsonObject:
    return {"$ref": f"#/$defs/{name}"}
