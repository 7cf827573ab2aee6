"""The finished analysis as one JSON object with stable keys (docs/reference/json.md)."""

import dataclasses
import json
import math
from typing import IO, Any, ClassVar

import pandas as pd

from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.run_tables import LOSSES, SCALING
from hvdprof.rundir.manifest import Skipped

JSON_SCHEMA_VERSION = 2

_KEYS_OF_THEIR_OWN = (SCALING.name, LOSSES.name, FINDINGS.name)

MOST_ROWS = 10_000
"""A table with more rows is not written out: `hvdprof convert` and `hvdprof sql` are for these."""


class JsonReporter:
    """Strict JSON: NaN and infinities become ``null``; keys are added, never renamed."""

    name: ClassVar[str] = "json"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".json.gz")

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write one indented object and a newline."""
        json.dump(json_object(analysis), stream, indent=1, allow_nan=False, ensure_ascii=False)
        stream.write("\n")


def json_object(analysis: RunAnalysis) -> dict[str, Any]:
    """The analysis as plain dictionaries, lists, texts, numbers and ``None``.

    Rows of ``scaling``, ``losses``, ``findings`` and of every table in ``tables`` have exactly the
    columns declared in ``hvdprof.model``, with their units; ratios are 0..1. ``row_counts`` tells
    the rows of every other table of the analysis, also of those too long for ``tables``.
    """
    manifest = analysis.run.manifest
    others = {name: one for name, one in analysis.tables.items() if name not in _KEYS_OF_THEIR_OWN}
    return {
        "schema_version": JSON_SCHEMA_VERSION,
        "verdict": _finite(dataclasses.asdict(analysis.verdict)),
        "scaling": _rows(analysis.scaling),
        "losses": _rows(analysis.losses),
        "skipped": [_skipped(cell) for cell in analysis.skipped],
        "failed": [
            dataclasses.asdict(cell) | {"lines": list(cell.lines)} for cell in analysis.failed
        ],
        "findings": _rows(analysis.findings),
        "warnings": list(analysis.warnings),
        "tables": {name: _rows(frame) for name, frame in others.items() if len(frame) <= MOST_ROWS},
        "row_counts": {name: len(frame) for name, frame in others.items()},
        "run": {
            "folder": str(analysis.run.folder),
            "name": manifest.name,
            "created_at": manifest.created_at,
            "versions": {"hvdprof": manifest.hvdprof_version, **manifest.versions},
        },
    }


def _skipped(cell: Skipped) -> dict[str, Any]:
    fields = dataclasses.asdict(cell)
    # The number of ranks has one name in the whole object.
    return {"model": fields.pop("model"), "np": fields.pop("size"), **fields}


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    rows = table.astype(object).to_dict(orient="records")
    return [_finite({str(name): value for name, value in row.items()}) for row in rows]


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if _is_missing(value) else value for name, value in row.items()}


def _is_missing(value: Any) -> bool:
    return value is pd.NA or (isinstance(value, float) and not math.isfinite(value))
