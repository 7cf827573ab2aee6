"""The finished analysis as one JSON object with stable keys, and as named numbers."""

import dataclasses
import math
from collections import defaultdict
from typing import IO, ClassVar

from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name, ranks_of
from hvdprof.model.causes import STRAGGLER
from hvdprof.model.cell_key import CELL_KEY, has_no_toggles
from hvdprof.model.run import RunAnalysis, Verdict
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.scaling_tables import LOSSES, SCALING
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.format_names import Format
from hvdprof.report.json_values import JsonObject, JsonValue, json_rows, json_value, write_json
from hvdprof.report.sections.file_page import page_json
from hvdprof.rundir.manifest import Skipped
from hvdprof.units import milliseconds, two_digit_percent

JSON_SCHEMA_VERSION = 2

KEYS_OF_THEIR_OWN = (SCALING.name, LOSSES.name, FINDINGS.name)

MOST_ROWS = 10_000
"""A table with more rows is not written out: `hvdprof convert` and `hvdprof sql` are for these."""

PREFIX = "hvdprof/summary"
_IN_A_KEY = "_./ -"
_OF_SCALING = {
    "samples_per_s": ("samples_per_second", 1.0),
    "step_time_median_ns": ("step_seconds", 1 / 1e9),
    **{name: (name, 1.0) for name in ("efficiency", "efficiency_low", "efficiency_high")},
}


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


def flat_summary(analysis: RunAnalysis) -> dict[str, float]:
    """``{"hvdprof/summary/efficiency": 0.84, ...}``; what is unknown has no key.

    Efficiencies of the verdict, then of each cell under ``model/np2/engine``: throughput, median
    step time in seconds, efficiency with its 95 % interval, and in ``cost_seconds`` and
    ``cost_ratio`` what each cause adds to the step; those of ranks with ranks and phase.
    """
    found: dict[str, float] = defaultdict(float)
    for name in ("efficiency", "efficiency_low", "efficiency_high"):
        found[f"{PREFIX}/{name}"] = float(getattr(analysis.verdict, name))
    for row in analysis.scaling.to_dict("records"):
        for column, (name, factor) in _OF_SCALING.items():
            found[f"{_cell(row)}/{name}"] = float(row[column]) * factor
    for row in analysis.table(WATERFALL.name).to_dict("records"):
        # One cause may come in two patterns: their costs add up.
        found[f"{_cell(row)}/cost_seconds/{_cause(row)}"] += float(row["time_ns"]) / 1e9
        found[f"{_cell(row)}/cost_ratio/{_cause(row)}"] += float(row["share"])
    return {_key(name): value for name, value in found.items() if math.isfinite(value)}


def differing_ranks(analysis: RunAnalysis) -> str:
    """The ranks that are slower than the others, one a line, with cost; empty without any."""
    lines = [
        f"{row['model']}, {row['np']} ranks: {cause_name(row)}, "
        f"{milliseconds(float(row['time_ns']))} per step ({two_digit_percent(float(row['share']))})"
        for row in analysis.table(WATERFALL.name).to_dict("records")
        if row["term"] == STRAGGLER
    ]
    return "\n".join(lines)


def _key(name: str) -> str:
    return "".join(one if one.isalnum() or one in _IN_A_KEY else "_" for one in name)


def _cell(row: FrameRow) -> str:
    model, size, engine, *toggles = (str(row[name]) for name in CELL_KEY)
    more = [] if has_no_toggles(row) else toggles
    return "/".join([PREFIX, model.replace("/", "_"), f"np{size}", engine, *more])


def _cause(row: FrameRow) -> str:
    ranks = ranks_of(row)
    whose = [f"rank_{'_'.join(map(str, ranks))}", str(row["phase"])] if ranks else []
    return "/".join(filter(None, [str(row["term"]), *whose]))
