"""What files answer: standalone files of tools, and a user's table of throughputs."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.file_page import FileVerdict
from hvdprof.model.notes import texts
from hvdprof.model.results.forecast import NextSize, ThroughputForecast
from hvdprof.model.standalone_files import FilesAnalysis, ScalingOfText
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.printed_tables import NCCL_TEST_RUNS, NCCL_TESTS
from hvdprof.report.answer import Answer, rows_csv
from hvdprof.report.json_values import JsonObject, json_rows, json_value
from hvdprof.report.sections.file_page import file_sections, nccl_test_sections, page_json
from hvdprof.report.sections.forecast_section import (
    EFFICIENCY_HEAD,
    RATE_HEAD,
    chance_head,
    efficiency_cell,
    rate_cell,
)
from hvdprof.report.sections.section import Action, Head, Page, Section, Tone

FILES_SCHEMA_VERSION = 2
_AS_ABOVE = "As above."

SCALING_SCHEMA_VERSION = 2

THROUGHPUT_FORECAST_SCHEMA_VERSION = 1


def files_answer(found: FilesAnalysis) -> Answer:
    """A finished analysis of files, to be written for readers, for programs, and as HTML."""
    name = found.run.manifest.name
    return Answer(partial(_page, found), partial(files_json, found), name=name)


def _page(found: FilesAnalysis) -> Page:
    """What all files say together, their pages, tables made of them, findings and warnings."""
    joint, files = tuple(_joint(found)), tuple(_files(found))
    run = found.run
    return Page(
        (
            *(files + joint if found.is_grave else joint + files),
            *nccl_test_sections(run.table(NCCL_TEST_RUNS.name), run.table(NCCL_TESTS.name)),
            *_throughputs(found),
        ),
        found.derived.get(FINDINGS.name, FINDINGS.empty()),
        tuple(texts(run.notes)),
    )


def _joint(found: FilesAnalysis) -> Iterator[Section]:
    """The verdicts on several files together; a caveat of several stands once."""
    caveats = set[str]()
    for verdict in found.verdicts:
        is_known = verdict.caveat in caveats
        yield Section(verdict=verdict.sentence, caveat="" if is_known else verdict.caveat)
        caveats.add(verdict.caveat)


def _files(found: FilesAnalysis) -> Iterator[Section]:
    caveats = set[str]()
    for page in found.files:
        is_known = page.caveat in caveats
        yield from file_sections(replace(page, caveat=_AS_ABOVE) if is_known else page)
        caveats |= {page.caveat} - {""}


def files_json(found: FilesAnalysis) -> JsonObject:
    """The analysis as plain dictionaries, lists, texts, numbers and ``None``.

    ``tables`` holds the derived tables, with the columns that docs/reference/tables.md lists.
    """
    return {
        "schema_version": FILES_SCHEMA_VERSION,
        "verdicts": [verdict.sentence for verdict in found.verdicts],
        "caveats": [verdict.caveat for verdict in found.verdicts],
        "files": [page_json(page) for page in found.files],
        "tables": {name: json_rows(frame) for name, frame in found.derived.items()},
        "row_counts": json_value(found.run.row_counts),
        "notes": json_value(texts(found.run.notes)),
    }


def _throughputs(found: FilesAnalysis) -> tuple[Section, ...]:
    """The throughputs of standalone files, a table per series."""
    scaling = found.throughput_scaling
    several = len(scaling["file"].unique()) > 1
    sections = []
    for series, members in scaling.groupby("series", observed=True, sort=False):
        base = members["baseline_np"].iloc[0]
        has_intervals = bool(members["efficiency_low"].notna().any())
        repeated = "repeats apart" if members["np"].duplicated().any() else "no repeats"
        known = "95 % CI within each launch" if has_intervals else repeated
        against = "no baseline" if pd.isna(base) else f"against np={base}, {known}"
        stated = ["as stated"] * bool(members["stated_speedup"].notna().any())
        files = ["file"] * several
        rows = [
            (
                units.count(row["np"]),
                units.rate_interval(*with_ends(row, "samples_per_s")),
                units.rate_interval(*with_ends(row, "speedup")),
                *(units.rate(row["stated_speedup"]) for _ in stated),
                units.percent_interval(*with_ends(row, "efficiency")),
                *(Path(str(row["file"])).name for _ in files),
            )
            for row in members.to_dict("records")
        ]
        heads = ("np", "samples/s", "speed-up", *stated, "efficiency", *files)
        shown = tuple(Head(head, is_text=head == "file") for head in heads)
        title = str(series) or "throughput"
        sections.append(Section(title, against, heads=shown, rows=tuple(rows)))
    return tuple(sections)


def scaling_answer(found: ScalingOfText) -> Answer:
    """A verdict, its caveat and a table for every series, then what was left out."""
    return Answer(partial(_scaling_page, found), partial(_object, found))


def _scaling_page(found: ScalingOfText) -> Page:
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
