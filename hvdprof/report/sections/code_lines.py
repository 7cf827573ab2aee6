"""Who waited for whom in a cell, the lines of code behind it, and where steps are spent."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.cause_names import cause_name, place_of, ranks_of, within
from hvdprof.model.causes import PAUSE, STRAGGLER
from hvdprof.model.cell_key import LAUNCH, finished_launches, of_base_cell, place_name
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import as_text
from hvdprof.model.tables.line_tables import LINE_CAUSES, LINE_SAMPLING, LINES
from hvdprof.model.tables.scaling_tables import LAUNCHES
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, CLOCKS, STRAGGLER_PATTERNS, STRAGGLERS
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.sections.section import Head, Section
from hvdprof.rundir.recording.line_format import MAIN_PROCESS, WORKER_PROCESS
from hvdprof.rundir.regular_file import open_regular

MOST_LINES = 8
_LATE_SHARE = 0.2
"""Delays of samples from this share of the sampled time on are mentioned."""
_TOO_FEW = (
    "The steps have too few samples for the time of any line: train longer, or raise --lines."
)

_OF_CAUSES = (
    *(Head("cause", is_text=True), Head("line"), Head("time")),
    Head("against", is_text=True),
    *(Head("samples", is_detail=True), Head("below it", is_text=True, is_detail=True)),
    Head("file", is_text=True, is_detail=True),
)
_OF_STEPS = (
    *(Head("rank"), Head("phase"), Head("line", is_text=True), Head("time")),
    *(Head("against\nthe others", is_detail=True), Head("samples")),
    Head("below it", is_text=True, is_detail=True),
)

_LONGEST = 4_000
"""Characters of a line of source from which it is data, not code."""

_MOST_RANKS = 8
_HEADS = (
    Head("rank"),
    Head("last\nin"),
    Head("waited"),
    Head("wait\ncaused"),
    Head("as\nlast"),
    Head("step-time cost\nwith jitter"),
    Head("pattern", is_text=True),
)


def line_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """What explains the causes of the verdict's cell, and its lines with the most time.

    None where nothing was sampled.
    """
    verdict = analysis.verdict
    lines, explained = of_verdict(analysis, LINES.name), cause_rows(analysis)
    if lines.empty and not explained:
        return ()
    place = place_name(verdict.model, verdict.np, verdict.engine)
    causes = Section(
        "Lines of code",
        caption=f"{place}: what explains its causes, time beyond that of what it is held against",
        heads=_OF_CAUSES,
        rows=explained,
        note="Times from samples, with 95 % intervals (docs/howto/lines.md).",
    )
    largest = _largest(lines)
    most = Section(
        "Lines with the most time" if len(largest) else "Lines of code",
        caption=f"{place}, per step",
        heads=_OF_STEPS,
        rows=tuple(_line_row(row) for row in largest.to_dict("records")),
        sentences=(
            *(_unexplained(analysis) if len(largest) else (_TOO_FEW,)),
            *_late(of_verdict(analysis, LINE_SAMPLING.name)),
        ),
        note=(
            "blocked: the rank waits for others. With a GPU the time of a line includes waits for "
            "the device. All lines: --section lines."
        )
        if len(largest)
        else "",
    )
    return (causes, most) if explained else (most,)


def lines_behind_causes(analysis: RunAnalysis) -> pd.DataFrame:
    """The rows of LINE_CAUSES of the verdict's cell."""
    verdict = analysis.verdict
    causes = analysis.table(LINE_CAUSES.name)
    return of_base_cell(causes, verdict.model, verdict.np, verdict.engine)


def cause_rows(analysis: RunAnalysis) -> tuple[tuple[str, ...], ...]:
    """A row of texts for each of them: cause, line, time, what the time is, and details."""
    name_of = {str(row["cause_id"]): cause_name(row) for row in _waterfall(analysis)}
    return tuple(
        _cause_row(row, name_of.get(str(row["cause_id"]), ""))
        for row in lines_behind_causes(analysis).to_dict("records")
    )


def _waterfall(analysis: RunAnalysis) -> list[FrameRow]:
    verdict = analysis.verdict
    rows = analysis.table(WATERFALL.name)
    return list(of_base_cell(rows, verdict.model, verdict.np, verdict.engine).to_dict("records"))


def _unexplained(analysis: RunAnalysis) -> list[str]:
    """A sentence on each named cause without a line."""
    explained = set(lines_behind_causes(analysis)["cause_id"])
    return [
        f'No line for "{cause_name(row)}": too few samples, or no single line.'
        for row in _waterfall(analysis)
        if row["term"] in (STRAGGLER, PAUSE) and row["cause_id"] not in explained
    ]


def _cause_row(row: FrameRow, name: str) -> tuple[str, ...]:
    time = units.interval_of_unit(
        row["excess_ns"], row["excess_low_ns"], row["excess_high_ns"], "ns"
    )
    what = str(row["against"])
    if not is_missing(row["num_events"]):
        what = f"{what} ({row['num_events']} of {row['of_events']} events)"
    if row["process"] == WORKER_PROCESS:
        what = f"{what} (workers)"
    details = (str(row["samples"]), str(row["leaf"]), str(row["file"]))
    return (name, place_of(row), time, what, *details)


def _largest(lines: pd.DataFrame) -> pd.DataFrame:
    """The lines with the most time, mean over the launches; their intervals are no narrower."""
    times = [column.name for column in LINES.columns if column.unit == "ns"]
    place = ["rank", "process", "phase", "file", "line", "function"]
    means = lines.groupby(place, sort=False).agg(
        **{name: (name, "mean") for name in times},
        samples=("samples", "sum"),
        leaf=("leaf", "first"),
    )
    known = means[means["time_ns"].notna()].reset_index()
    return known.sort_values("time_ns", ascending=False, kind="stable").head(MOST_LINES)


def _line_row(row: FrameRow) -> tuple[str, ...]:
    time, excess = (
        units.interval_of_unit(
            row[f"{name}_ns"], row[f"{name}_low_ns"], row[f"{name}_high_ns"], "ns"
        )
        for name in ("time", "excess")
    )
    phase = str(row["phase"]) if row["process"] == MAIN_PROCESS else "workers"
    texts = (str(row["rank"]), phase, place_of(row), time, excess, str(row["samples"]))
    return (*texts, str(row["leaf"]))


def _late(sampling: pd.DataFrame) -> tuple[str, ...]:
    """A sentence on samples that came late within steps, where many did."""
    sampling = sampling[(sampling["step"] >= 0).to_numpy()]
    sampled = float((sampling["samples"] * sampling["mean_gap_ns"]).sum())
    share = float(sampling["late_ns"].sum()) / sampled if sampled else 0.0
    if share < _LATE_SHARE:
        return ()
    return (
        f"Samples came late by {units.percent(share, 0)} of the time: calls in C that hold the "
        "interpreter's lock, or busy cores. Lines beside such calls may be longer or shorter.",
    )


def source_line(file: str, line: int, begun: datetime) -> str:
    """A line of a Python file without its indent; empty where the file has changed or is not there.

    Args:
        file: Its path, as recorded.
        line: The line, from 1.
        begun: When the run began: a file that was written later is another one.
    """
    path = Path(file)
    # A run directory of a stranger may name any file.
    if path.suffix != ".py" or not path.is_absolute() or line < 1:
        return ""
    try:
        if path.stat().st_mtime > begun.timestamp():
            return ""
        with open_regular(path) as source:
            text = next(islice(source, line - 1, line), b"").decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""
    return text if len(text) <= _LONGEST else ""


def caused_wait_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """The ranks of the cell that the verdict is about, as means over its throughput launches.

    The costliest come first. None where nothing was recorded or fewer than two ranks ran.
    """
    caused = of_verdict(analysis, CAUSED_WAIT.name)
    if caused.empty:
        return ()
    launches = len(caused[LAUNCH].drop_duplicates())
    patterns = of_verdict(analysis, STRAGGLERS.name)
    by_rank = caused.groupby("rank")[
        ["share_last", "waited_ns", "caused_wait_ns", "wait_as_last_ns", "cost_ns"]
    ].mean()
    # Of the mean step: the mean of shares of launches that differ contradicts that of the times.
    step_ns = of_verdict(analysis, LAUNCHES.name)["step_time_ns"].mean()
    order = by_rank.sort_values("cost_ns", ascending=False, kind="stable")
    causes = _causes(analysis)
    stragglers = [row for row in causes.to_dict("records") if row["term"] == STRAGGLER]
    rows = tuple(
        (
            str(rank),
            units.percent(row["share_last"], 0),
            units.milliseconds(row["waited_ns"]),
            units.milliseconds(row["caused_wait_ns"]),
            units.milliseconds(row["wait_as_last_ns"]),
            f"{units.milliseconds(row['cost_ns'])} {units.percent(row['cost_ns'] / step_ns)}",
            _pattern(int(str(rank)), stragglers, patterns, launches),
        )
        for rank, row in order.head(_MOST_RANKS).iterrows()
    )
    verdict = analysis.verdict
    over = "mean over one launch" if launches == 1 else f"mean of {launches} launches"
    left_out = len(order) - len(rows)
    jitter = "The waterfall leaves out a straggler's own jitter. " if stragglers else ""
    meaning = (
        "Wait caused: the rank's Shapley share of all waiting; as last: wait while only this rank "
        f"was missing. Step-time cost: what all its delays add to the step. {jitter}"
    )
    more = f"{left_out} more ranks: --section caused_wait. " if left_out > 0 else ""
    return (
        Section(
            "Who waited for whom",
            caption=f"{place_name(verdict.model, verdict.np, verdict.engine)}, per step, {over}",
            heads=_HEADS,
            rows=rows,
            note=meaning + more + _clock_sentence(of_verdict(analysis, CLOCKS.name)),
        ),
    )


def of_verdict(analysis: RunAnalysis, name: str) -> pd.DataFrame:
    """The rows of a table of the analysis or the run that speak for the verdict's cell."""
    verdict, segments = analysis.verdict, analysis.run.segments
    measured = segments[(segments["mode"] == "throughput").to_numpy()]
    own = set(finished_launches(of_base_cell(measured, verdict.model, verdict.np, verdict.engine)))
    table = analysis.run.table(name) if name in analysis.run.frames else analysis.table(name)
    launches = zip(*(table[name].tolist() for name in LAUNCH), strict=True)
    rows = [row for row, launch in enumerate(launches) if launch in own]
    return as_text(table.iloc[rows], LAUNCH).reset_index(drop=True)


def _causes(analysis: RunAnalysis) -> pd.DataFrame:
    """The waterfall of the verdict's cell, which the report prints above."""
    verdict = analysis.verdict
    rows = analysis.table(WATERFALL.name)
    return of_base_cell(rows, verdict.model, verdict.np, verdict.engine)


def _pattern(rank: int, causes: Sequence[FrameRow], patterns: pd.DataFrame, launches: int) -> str:
    """The pattern of the cause in WATERFALL that names the rank, else of launches of their own."""
    for cause in causes:
        if rank in ranks_of(cause):
            num = int(cause["num_launches"])
            often = "" if num == launches else f", {num} of {launches} launches"
            return f"{cause['pattern']}{within(str(cause['phase']))}{often}"
    rows = patterns[patterns["rank"] == rank]
    named = rows[rows["pattern"].isin(STRAGGLER_PATTERNS)]
    if named.empty:
        rotating = bool((rows["pattern"] == "rotating").mean() > 1 / 2) if len(rows) else False
        return "rotating" if rotating else "-"
    first = named.iloc[0]
    often = "" if len(named) == launches else f", {len(named)} of {launches} launches"
    return f"{named['pattern'].mode().iloc[0]}{within(str(first['phase']))}{often}"


def _clock_sentence(clocks: pd.DataFrame) -> str:
    known = clocks["u_ns"].dropna()
    if known.empty:
        return "The error of the clocks is not known."
    largest = float(known.max())
    if largest == 0:
        return "All ranks read the same clock."
    return (
        f"The clocks of the ranks are known to ±{units.milliseconds(largest)}: waits below "
        f"{units.milliseconds(2 * largest)} are attributed to no rank."
    )
