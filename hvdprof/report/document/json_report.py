"""The finished analysis as one JSON object with stable keys (docs/reference/json.md)."""

import dataclasses
from typing import IO, ClassVar

from hvdprof.model.run import RunAnalysis, Verdict
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.scaling_tables import LOSSES, SCALING
from hvdprof.report.format_names import Format
from hvdprof.report.json_values import JsonObject, JsonValue, json_rows, json_value, write_json
from hvdprof.report.sections.file_page import page_json
from hvdprof.rundir.manifest import Skipped

JSON_SCHEMA_VERSION = 2

KEYS_OF_THEIR_OWN = (SCALING.name, LOSSES.name, FINDINGS.name)

MOST_ROWS = 10_000
"""A table with more rows is not written out: `hvdprof convert` and `hvdprof sql` are for these."""


class JsonReporter:
    """Strict JSON: NaN and infinities become ``null``."""

    name: ClassVar[Format] = Format.JSON
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".json.gz")

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write one indented object and a newline."""
        write_json(json_object(analysis), stream)


def json_object(analysis: RunAnalysis) -> JsonObject:
    """The analysis as plain dictionaries, lists, texts, numbers and ``None``.

    Rows of ``scaling``, ``losses``, ``findings`` and of every table in ``tables`` have exactly the
    columns declared in ``hvdprof.model``, with their units; ratios are 0..1. ``row_counts`` holds
    the number of rows of every other table of the analysis, also of those too long for ``tables``.
    Tables of which files have yet to be read, such as those of the Flight Recorder, are in neither.
    """
    manifest = analysis.run.manifest
    stop = manifest.stop
    others = {
        name: one for name, one in analysis.ready_tables.items() if name not in KEYS_OF_THEIR_OWN
    }
    return {
        "schema_version": JSON_SCHEMA_VERSION,
        "verdict": _verdict(analysis.verdict),
        "scaling": json_rows(analysis.scaling),
        "losses": json_rows(analysis.losses),
        "skipped": [_skipped(cell) for cell in analysis.skipped],
        "failed": [json_value(dataclasses.asdict(cell)) for cell in analysis.failed],
        "findings": json_rows(analysis.findings),
        "files": [page_json(page) for page in analysis.pages],
        "warnings": list(analysis.warnings),
        "warning_notes": [
            json_value(dataclasses.asdict(warning_note)) for warning_note in analysis.warning_notes
        ],
        "tables": {
            name: json_rows(frame) for name, frame in others.items() if len(frame) <= MOST_ROWS
        },
        "row_counts": {name: len(frame) for name, frame in others.items()},
        "run": {
            "folder": str(analysis.run.folder),
            "name": manifest.name,
            "created_at": manifest.created_at,
            "stop": json_value(stop and dataclasses.asdict(stop)),
            "versions": {"hvdprof": manifest.hvdprof_version, **manifest.versions},
        },
    }


def _verdict(verdict: Verdict) -> JsonValue:
    fields = dataclasses.asdict(verdict)
    # What it is made of stands in its sentence and in the tables.
    del fields["parts"]
    return json_value(fields | {"caveat": verdict.caveat})


def _skipped(cell: Skipped) -> JsonValue:
    fields = dataclasses.asdict(cell)
    # The number of ranks has one name in the whole object.
    return json_value({"model": fields.pop("model"), "np": fields.pop("size"), **fields})
