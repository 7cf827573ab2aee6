"""The run as a strip: one column per step, as high as its time, marked where the cause acts."""

from dataclasses import dataclass

import numpy as np

from hvdprof import units
from hvdprof.figures.launch import launch_label, opening_launch, rows_of_launch
from hvdprof.figures.typical_step import acting_steps
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name
from hvdprof.model.cell_key import of_base_cell, setting_of_row
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waterfall_tables import WATERFALL

MOST_COLUMNS = 240
"""Columns of the strip; of more steps, each column is the longest of its neighbours."""


@dataclass(frozen=True, slots=True)
class Column:
    """A step: its number, its height as a share of the highest, and whether the cause acts in it.

    ``text`` is what it says on hover; a step that is not ``steady`` is excluded from results.
    """

    step: int
    height: float
    acts: bool
    steady: bool
    text: str


@dataclass(frozen=True, slots=True)
class RunStrip:
    """The columns of one launch, the term of the verdict, and what the strip says in words."""

    launch: LaunchKey
    term: str
    columns: tuple[Column, ...]
    sentence: str
    source: str


def run_strip(analysis: RunAnalysis, cell: FrameRow) -> RunStrip | None:
    """The strip of the launch of a cell that pages open; None without its steps.

    Args:
        analysis: The finished analysis.
        cell: A row of SCALING.
    """
    key = str(cell["model"]), int(cell["np"]), str(cell["engine"])
    segments, steps = analysis.run.segments, analysis.job_steps
    launch = opening_launch(segments, steps, key[0], key[1], setting_of_row(cell))
    rows = steps if launch is None else rows_of_launch(steps, launch)
    if launch is None or rows.empty:
        return None
    causes = of_base_cell(analysis.table(WATERFALL.name), *key).to_dict("records")
    named = [row for row in causes if row["cause_id"] == analysis.verdict.parts.cause_id]
    cause = named[0] if named else None
    acting = acting_steps(analysis, launch, cause)
    name = "" if cause is None else cause_name(cause)
    steady = rows["steady"].to_numpy(dtype=bool)
    number = units.count(int(rows["num_steps"].to_numpy()[steady].sum()))
    source = (
        f"{number} of {units.counted(int(rows['num_steps'].sum()), 'step')}, "
        f"launch {launch_label(segments, launch)}"
    )
    # A light recording has windows of several steps.
    noun = "window" if (rows["num_steps"] > 1).any() else "step"
    counted = f"{units.count(len(acting))} of {units.counted(int(steady.sum()), noun)}"
    sentence = f"{name} acts in {counted}" if acting else ""
    return RunStrip(
        launch,
        "" if cause is None else str(cause["term"]),
        _columns(rows["step"].to_numpy(), rows["dur_ns"].to_numpy(float), steady, acting, name),
        sentence,
        source,
    )


def _columns(
    steps: np.ndarray, times: np.ndarray, steady: np.ndarray, acting: frozenset[int], name: str
) -> tuple[Column, ...]:
    bins = np.array_split(np.arange(len(steps)), min(len(steps), MOST_COLUMNS))
    places = [int(part[times[part].argmax()]) for part in bins]
    # One very long step would flatten all others.
    highest = min(float(times[places].max()), 3 * float(np.median(times)))
    columns = []
    for place in places:
        step, acts = int(steps[place]), int(steps[place]) in acting
        why = f", {name}" if acts else "" if steady[place] else ", excluded"
        text = f"step {units.count(step)}: {units.milliseconds(float(times[place]))}{why}"
        height = min(float(times[place]) / highest, 1.0)
        columns.append(Column(step, height, acts, bool(steady[place]), text))
    return tuple(columns)
