"""A step of typical length that shows a finding, and the run as a strip of its steps."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.figures.launch import (
    LaunchSteps,
    launch_steps,
    opening_launch,
    rows_of_launch,
    step_names,
)
from hvdprof.model.arrays import Bools, Float64s, FrameRow, Int64s
from hvdprof.model.cause_names import cause_name, ranks_of
from hvdprof.model.causes import JITTER, PAUSE, STRAGGLER
from hvdprof.model.cell_key import LAUNCH, LaunchKey, Mode, of_base_cell, setting_of_row
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.model.tables.timeline_tables import INFERRED_STEPS
from hvdprof.model.tables.waiting_tables import LATENESS
from hvdprof.model.tables.waterfall_tables import WATERFALL

_DRAWN = ("part", "negotiation", "operation", "activity")
_MARGIN = 0.1

MOST_COLUMNS = 240
"""Columns of the strip; of more steps, each column is the longest of its neighbours."""


def step_windows(run: Run, launch: LaunchKey, steps: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Start and end of each step over all ranks, ns since the first event of the pass.

    A pass can hold several segments with the same step numbers, so a number alone is ambiguous. A
    tenth of the step is added on both sides. Unknown steps are omitted.
    """
    events = run.events
    is_drawn = (events["pass_id"] == launch[0]) & events["phase"].isin(_DRAWN)
    of_pass = is_drawn.to_numpy(dtype=bool)
    if not of_pass.any():
        return {}
    origin = int(events["start_ns"].to_numpy()[of_pass].min())
    table = run.steps if len(run.steps) else run.table(INFERRED_STEPS.name)
    rows = rows_of_launch(table, launch)
    rows = rows[rows["step"].isin(set(steps)).to_numpy()]
    starts = rows["start_ns"].to_numpy(dtype=np.int64)
    ends = starts + rows["dur_ns"].fillna(0).to_numpy(dtype=np.int64)
    found = rows.assign(start=starts, end=ends).groupby("step").agg({"start": "min", "end": "max"})
    return {
        int(step): (max(start - origin - margin, 0), end - origin + margin)
        for step, start, end in found.itertuples(name=None)
        if (margin := round(_MARGIN * (end - start))) > 0
    }


_LATE_QUANTILE = 0.75


def typical_step(
    analysis: RunAnalysis, finding: Mapping[Hashable, object]
) -> tuple[LaunchKey, int] | None:
    """A steady step of the cell in which the cause of a finding acts, as (launch, step).

    Of a straggler, a step in which its rank is the last and as late as usual; of a pause, a step
    as long as those with a pause are; otherwise a step of median length. A traced launch is
    preferred, because its time axis also shows the engine. None where there is no such step.
    """
    found = finding_steps(analysis, finding)
    return None if found is None else (found.launch, found.typical)


@dataclass(frozen=True, slots=True)
class ActingSteps:
    """The steps of a launch in which the cause of a finding acts, ascending, and a typical one."""

    launch: LaunchKey
    steps: Int64s
    typical: int


def finding_steps(
    analysis: RunAnalysis, finding: Mapping[Hashable, object], pass_id: str = ""
) -> ActingSteps | None:
    """The steady steps in which the cause of a finding acts; see ``typical_step``.

    Args:
        analysis: The finished analysis.
        finding: A row of FINDINGS on a cell.
        pass_id: Only launches of this pass; all of the cell by default.
    """
    model, engine = str(finding["model"]), str(finding["engine"])
    num_ranks = int(str(finding["np"]))
    cell = of_base_cell(analysis.run.segments, model, num_ranks, engine)
    traced_first = cell.iloc[np.argsort(cell["mode"] != Mode.TRACE, kind="stable")]
    # The row of WATERFALL that the finding is about.
    rows = of_base_cell(analysis.table(WATERFALL.name), model, num_ranks, engine)
    same = rows[(rows["cause_id"] == finding["cause_id"]).to_numpy(dtype=bool)]
    cause = None if same.empty else same.iloc[0].to_dict()
    for of_pass, segment in traced_first[LAUNCH].itertuples(index=False):
        launch = (str(of_pass), str(segment))
        acting = _acting(analysis, launch, cause) if pass_id in ("", launch[0]) else None
        if acting is not None:
            steps, typical = _chosen(*acting)
            return ActingSteps(launch, np.sort(steps), typical)
    return None


def acting_steps(
    analysis: RunAnalysis, launch: LaunchKey, cause: FrameRow | None
) -> frozenset[int]:
    """The steady steps of a launch in which a straggler or a pause acts; none of other causes.

    Those are in every step to some degree, and no step shows that they are.

    Args:
        analysis: The finished analysis.
        launch: The launch (pass_id, segment).
        cause: A row of WATERFALL.
    """
    is_of_steps = cause is not None and cause["term"] in (STRAGGLER, PAUSE)
    found = _acting(analysis, launch, cause) if is_of_steps else None
    if found is None:
        return frozenset()
    steps, _, acts = found
    return frozenset(int(step) for step in steps[acts])


def _acting(
    analysis: RunAnalysis, launch: LaunchKey, cause: FrameRow | None
) -> tuple[Int64s, Float64s, Bools] | None:
    """The steady steps, how much of the cause each holds, and whether it acts there."""
    steps = rows_of_launch(analysis.job_steps, launch)
    steady = steps[steps["steady"].to_numpy(dtype=bool)]
    if steady.empty:
        return None
    term = None if cause is None else cause["term"]
    if cause is not None and term in (STRAGGLER, JITTER):
        late = rows_of_launch(analysis.table(LATENESS.name), launch)
        late = late[late["step"].isin(steady["step"]).to_numpy(dtype=bool)]
        if len(late):
            return _late(late, cause)
    lengths = steady["dur_ns"].to_numpy(dtype=np.float64)
    acts = np.ones(len(lengths), dtype=bool)
    if cause is not None and term == PAUSE:
        acts = lengths >= np.median(lengths) + float(cause["delay_ns"]) / 2
    return steady["step"].to_numpy(dtype=np.int64), lengths, acts


def _late(late: pd.DataFrame, cause: FrameRow) -> tuple[Int64s, Float64s, Bools]:
    by_step = late.pivot_table(index="step", columns="rank", values="lateness_ns")
    of_all = by_step.to_numpy(dtype=np.float64)
    latest = np.nanmax(of_all, axis=1)
    ranks = [rank for rank in ranks_of(cause) if rank in by_step.columns]
    if ranks:
        own = by_step[ranks].max(axis=1).to_numpy(dtype=np.float64)
        acts = (own >= latest) & (own >= float(cause["delay_ns"]) / 2)
    else:
        own, acts = latest, latest >= np.quantile(latest, _LATE_QUANTILE)
    return by_step.index.to_numpy(dtype=np.int64), own, acts


def _chosen(steps: Int64s, values: Float64s, acts: Bools) -> tuple[Int64s, int]:
    """The steps that act, all without any, and the one whose value is nearest to their median."""
    places = np.flatnonzero(acts) if acts.any() else np.arange(len(values))
    distance = np.abs(values[places] - np.median(values[places]))
    return steps[places], int(steps[places[distance.argmin()]])


@dataclass(frozen=True, slots=True)
class Column:
    """A step: its number, its height as a share of the highest, and whether the cause acts in it.

    ``size`` is 1, of a window its number of steps; ``text`` is what it says on hover; a step that
    is not ``steady`` is excluded from results.
    """

    step: int
    size: int
    height: float
    acts: bool
    steady: bool
    text: str


@dataclass(frozen=True, slots=True)
class RunStrip:
    """The columns of one launch, the term of the verdict, and what the strip says in words."""

    steps: LaunchSteps
    term: str
    columns: tuple[Column, ...]
    sentence: str


def run_strip(analysis: RunAnalysis, cell: FrameRow) -> RunStrip | None:
    """The strip of the launch of a cell that pages open; None without its steps."""
    key = str(cell["model"]), int(cell["np"]), str(cell["engine"])
    segments, steps = analysis.run.segments, analysis.job_steps
    launch = opening_launch(segments, steps, key[0], key[1], setting_of_row(cell))
    if launch is None:
        return None
    shown = launch_steps(analysis.run, steps, analysis.launches, launch)
    causes = of_base_cell(analysis.table(WATERFALL.name), *key).to_dict("records")
    named = [row for row in causes if row["cause_id"] == analysis.verdict.parts.cause_id]
    cause = named[0] if named else None
    acting = acting_steps(analysis, launch, cause)
    name = "" if cause is None else cause_name(cause)
    of_launch = shown.table
    # A light recording has windows of several steps.
    noun = "window" if (of_launch["num_steps"] > 1).any() else "step"
    counted = f"{units.count(len(acting))} of {units.counted(int(of_launch['steady'].sum()), noun)}"
    sentence = f"{name} acts in {counted}" if acting else ""
    term = "" if cause is None else str(cause["term"])
    return RunStrip(shown, term, _columns(of_launch, acting, name), sentence)


def _columns(table: pd.DataFrame, acting: frozenset[int], name: str) -> tuple[Column, ...]:
    steps, sizes, steady, whys = (
        table[column].to_numpy() for column in ("step", "num_steps", "steady", "why")
    )
    names = step_names(steps, sizes)
    times = table["dur_ns"].to_numpy(float)
    bins = np.array_split(np.arange(len(steps)), min(len(steps), MOST_COLUMNS))
    places = [int(part[times[part].argmax()]) for part in bins]
    # One very long step would flatten all others.
    highest = min(float(times[places].max()), 3 * float(np.median(times)))
    columns = []
    for place in places:
        step, acts = int(steps[place]), int(steps[place]) in acting
        why = f", {name}" if acts else "" if steady[place] else f", excluded: {whys[place]}"
        text = f"{names[place]}: {units.milliseconds(float(times[place]))}{why}"
        height = min(float(times[place]) / highest, 1.0)
        columns.append(Column(step, int(sizes[place]), height, acts, bool(steady[place]), text))
    return tuple(columns)
