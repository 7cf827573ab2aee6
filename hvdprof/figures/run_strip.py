"""The run as a strip: one column per step, as high as its time, marked where the cause acts."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.figures.launch import LaunchSteps, launch_steps, opening_launch, step_names
from hvdprof.figures.typical_step import acting_steps
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name
from hvdprof.model.cell_key import of_base_cell, setting_of_row
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waterfall_tables import WATERFALL

MOST_COLUMNS = 240
"""Columns of the strip; of more steps, each column is the longest of its neighbours."""


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
    """The strip of the launch of a cell that pages open; None without its steps.

    Args:
        analysis: The finished analysis.
        cell: A row of SCALING.
    """
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
