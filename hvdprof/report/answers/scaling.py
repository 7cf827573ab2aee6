"""The scaling of a user's table: a section for every series, and JSON.

Tested in ``tests/cli/test_scaling.py``.
"""

from collections.abc import Callable
from functools import partial

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.file_page import FileVerdict
from hvdprof.model.standalone_files import ScalingOfText
from hvdprof.report.answer import Answer
from hvdprof.report.json_values import JsonObject, json_rows, json_value
from hvdprof.report.sections.section import Head, Page, Section

SCALING_SCHEMA_VERSION = 2


def scaling_answer(found: ScalingOfText) -> Answer:
    """A verdict, its caveat and a table for every series, then what was left out."""
    return Answer(partial(_page, found), partial(_object, found))


def _page(found: ScalingOfText) -> Page:
    groups = found.scaling.groupby("series", observed=True, sort=False)
    sections = (
        _section(str(series), members, verdict)
        for (series, members), verdict in zip(groups, found.verdicts, strict=True)
    )
    return Page(tuple(sections), notes=found.notes)


def _object(found: ScalingOfText) -> JsonObject:
    """Verdicts and caveats, table rows, notes."""
    return {
        "schema_version": SCALING_SCHEMA_VERSION,
        "verdicts": [verdict.sentence for verdict in found.verdicts],
        "caveats": [verdict.caveat for verdict in found.verdicts],
        "throughput_scaling": json_rows(found.scaling),
        "notes": json_value(found.notes),
    }


def _section(series: str, members: pd.DataFrame, verdict: FileVerdict) -> Section:
    columns: dict[str, Callable[[FrameRow], str]] = {
        "np": lambda row: units.count(row["np"]),
        "repeats": lambda row: units.count(row["num_repeats"]),
        "samples/s": lambda row: units.rate_interval(*with_ends(row, "samples_per_s")),
        "speed-up": lambda row: units.rate_interval(*with_ends(row, "speedup")),
        "scaling\nefficiency": lambda row: units.percent_interval(*with_ends(row, "efficiency")),
        "serial\nfraction": lambda row: _fraction(*with_ends(row, "karp_flatt")),
    }
    if members["samples_per_s"].isna().all():
        del columns["samples/s"]
    return Section(
        series or "throughput",
        heads=tuple(map(Head, columns)),
        rows=tuple(
            tuple(text(row) for text in columns.values()) for row in members.to_dict("records")
        ),
        verdict=verdict.sentence,
        caveat=verdict.caveat,
    )


def with_ends(row: FrameRow, name: str) -> tuple[float, float, float]:
    """A number of a row with both ends of its interval."""
    return row[name], row[f"{name}_low"], row[f"{name}_high"]


def _fraction(value: float, low: float, high: float) -> str:
    """A serial fraction; below 0 and above 1 there is no serial part that explains the speed-up."""
    if value < 0 or value > 1:
        return "not meaningful"
    return units.fraction_interval(value, low, high)
