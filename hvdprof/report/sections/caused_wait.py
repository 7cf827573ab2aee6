"""Who waited for whom in one cell."""

from collections.abc import Sequence

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import ranks_of, within
from hvdprof.model.causes import STRAGGLER
from hvdprof.model.cell_key import of_base_cell, place_name
from hvdprof.model.launch_key import LAUNCH, is_finished
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import as_text
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, CLOCKS, STRAGGLER_PATTERNS, STRAGGLERS
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.sections.section import Head, Section

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
        ["share_last", "waited_ns", "caused_wait_ns", "wait_as_last_ns", "cost_ns", "cost_share"]
    ].mean()
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
            f"{units.milliseconds(row['cost_ns'])} {units.percent(row['cost_share'])}",
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
    measured = segments[(segments["mode"] == "throughput").to_numpy() & is_finished(segments)]
    of_cell = of_base_cell(measured, verdict.model, verdict.np, verdict.engine)
    table = analysis.run.table(name) if name in analysis.run.frames else analysis.table(name)
    return as_text(table, LAUNCH).merge(as_text(of_cell[LAUNCH], LAUNCH), on=LAUNCH)


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
