"""What a user's table of throughputs answers: the scaling of every series, and its forecast."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.file_page import FileVerdict
from hvdprof.model.results.forecast import NextSize, ThroughputForecast
from hvdprof.model.standalone_files import ScalingOfText
from hvdprof.report.answer import Answer, rows_csv
from hvdprof.report.json_values import JsonObject, json_rows, json_value
from hvdprof.report.sections.forecast_section import (
    EFFICIENCY_HEAD,
    RATE_HEAD,
    chance_head,
    efficiency_cell,
    rate_cell,
)
from hvdprof.report.sections.section import Action, Head, Page, Section, Tone

SCALING_SCHEMA_VERSION = 2

THROUGHPUT_FORECAST_SCHEMA_VERSION = 1


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


def throughput_forecast_answer(found: ThroughputForecast) -> Answer:
    """A verdict, its caveat and the bands of every series, then what was left out."""
    return Answer(
        partial(_forecast_page, found), partial(_forecast_object, found), rows_csv(found.rows)
    )


def _forecast_page(found: ThroughputForecast) -> Page:
    series = tuple(found.rows.groupby("series", observed=True, sort=False).groups)
    return Page(
        tuple(_forecast_section(found, str(name), place) for place, name in enumerate(series)),
        notes=tuple(found.notes),
    )


def _forecast_object(found: ThroughputForecast) -> JsonObject:
    """The keys are listed in docs/howto/predict.md."""
    return {
        "schema_version": THROUGHPUT_FORECAST_SCHEMA_VERSION,
        "verdicts": [verdict.sentence for verdict in found.verdicts],
        "caveats": [verdict.caveat for verdict in found.verdicts],
        "target": found.target,
        "seed": found.seed,
        "throughput_forecast": json_rows(found.rows),
        "throughput_scaling": json_rows(found.measured),
        "limits": [json_value(asdict(limit)) for limit in found.limits],
        "measure_next": [json_value(asdict(next_size)) for next_size in found.next_sizes],
        "notes": json_value(found.notes),
    }


def next_step(following: NextSize) -> str:
    """What to measure next and what it gains."""
    before, after = (100 * band for band in (following.band_before, following.band_after))
    return (
        f"measure np={following.np} and add its row. The 90 % band on "
        f"{units.count(following.target_np)} ranks then narrows from {before:.0f} to about "
        f"{after:.0f} points."
    )


def _forecast_section(found: ThroughputForecast, series: str, place: int) -> Section:
    rows = found.rows[(found.rows["series"] == series).to_numpy()]
    measured = found.measured[(found.measured["series"] == series).to_numpy()]
    with_rates = not rows["samples_per_s_p50"].isna().all()
    names = ["np", EFFICIENCY_HEAD, *[RATE_HEAD] * with_rates, chance_head(found.target)]
    cells: list[tuple[str, ...]] = []
    for row in measured.to_dict("records"):
        rate = [units.rate(row["samples_per_s"])] * with_rates
        cells.append((units.count(row["np"]), f"{100 * row['efficiency']:.1f} measured", *rate, ""))
    for row in rows.to_dict("records"):
        rate = [rate_cell(row)] * with_rates
        chance = units.percent(row["meets_target"], 0)
        cells.append((units.count(row["np"]), efficiency_cell(row), *rate, chance))
    tones: list[Tone] = ["dim" for _ in measured.index]
    tones += ["" for _ in rows.index]
    verdict = found.verdicts[place]
    return Section(
        series or "throughput",
        heads=tuple(map(Head, names)),
        rows=tuple(cells),
        verdict=verdict.sentence,
        caveat=verdict.caveat,
        actions=tuple(
            Action("Next", next_step(size)) for size in found.next_sizes if size.series == series
        ),
        tones=tuple(tones),
    )
