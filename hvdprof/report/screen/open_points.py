"""What is known, suspected and to be measured next, where no finding explains a low efficiency."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name
from hvdprof.model.causes import CAUSES
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import as_text
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.screen.rank_phases import rank_phases
from hvdprof.report.screen.tiles import is_too_busy, verdict_cell
from hvdprof.report.screen.verdict_band import repeated_command
from hvdprof.rundir.attached import attached_files

EXPLAINED = 0.9
"""From this efficiency on, no explanation is due."""

_OFTEN_LAST = 0.75
_MOST_TERMS = 3
_SMALLEST_TERM = 0.01


@dataclass(frozen=True, slots=True)
class OpenPoints:
    """Sentences on an efficiency without a finding.

    Attributes:
        title: ``65.0 % efficiency without a finding``.
        known: What was measured.
        suspected: What the numbers point at, without being certain.
        next_step: What to measure next.
        command: The command for it.
    """

    title: str
    known: tuple[str, ...]
    suspected: tuple[str, ...]
    next_step: str
    command: str


def open_points(analysis: RunAnalysis) -> OpenPoints | None:
    """The open points of the verdict's cell; None from 90 % on, or with a finding on the cell.

    None, too, where the machine was too busy: more repeats on it make nothing certain.
    """
    cell = verdict_cell(analysis)
    if cell is None or cell["oversubscribed"] or not float(cell["efficiency"]) < EXPLAINED:
        return None
    if is_too_busy(analysis, cell) or _has_finding(analysis, cell):
        return None
    more = "More repeats narrow the intervals until a cause is certain."
    return OpenPoints(
        title=f"{units.percent(float(cell['efficiency']))} efficiency without a finding",
        known=tuple(_known(analysis, cell)),
        suspected=tuple(_suspected(analysis, cell)),
        next_step=more if len(analysis.table(WATERFALL.name)) else "The recorder names the causes.",
        command=repeated_command(analysis)
        or (
            f"hvdprof run --np {int(cell['np'])} --repeats 6 -- python train.py"
            if attached_files(analysis.run.manifest)
            else "hvdprof bench --preset quick --repeats 6"
        ),
    )


def _has_finding(analysis: RunAnalysis, cell: FrameRow) -> bool:
    """Whether a finding with a cost is about the cell, or about the whole run."""
    for row in analysis.findings.to_dict("records"):
        if not row["model"] and row["severity"] != "note":
            return True
        if all(str(row[key]) == str(cell[key]) for key in ("model", "np", "engine")) and not (
            math.isnan(float(row["cost_share"]))
        ):
            return True
    return False


def _known(analysis: RunAnalysis, cell: FrameRow) -> Iterator[str]:
    lost = 1 - float(cell["efficiency"])
    yield f"The cell loses {units.points(lost).removeprefix('+')} against {cell['baseline']}."
    rows = _of_cell(analysis.table(WATERFALL.name), cell).to_dict("records")
    terms = sorted(
        (row for row in rows if row["term"] in CAUSES and row["share"] >= _SMALLEST_TERM),
        key=lambda row: -float(row["share"]),
    )
    for row in terms[:_MOST_TERMS]:
        text = units.interval_of_unit(row["share"], row["share_low"], row["share_high"], "ratio")
        name = cause_name(row)
        yield f"{name[0].upper()}{name[1:]}: {text} of the step."
    if math.isfinite(float(cell["blocked_share"])):
        yield f"Ranks are blocked for {units.percent(float(cell['blocked_share']))} of the step."


def _suspected(analysis: RunAnalysis, cell: FrameRow) -> Iterator[str]:
    segments = as_text(_of_cell(analysis.run.segments, cell)[LAUNCH], LAUNCH)
    waits = analysis.table(CAUSED_WAIT.name)
    own = as_text(waits, LAUNCH).merge(segments, on=list(LAUNCH))
    if len(own):
        last = own.groupby("rank", as_index=False)["share_last"].mean()
        worst = last.iloc[int(last["share_last"].to_numpy().argmax())]
        if worst["share_last"] >= _OFTEN_LAST:
            often = units.percent(float(worst["share_last"]), 0)
            yield f"Rank {int(worst['rank'])} is the last to arrive in {often} of the steps."
    strip = rank_phases(analysis, cell)
    if strip is not None:
        yield strip.sentence


def _of_cell(rows: pd.DataFrame, cell: FrameRow) -> pd.DataFrame:
    return of_base_cell(rows, str(cell["model"]), int(cell["np"]), str(cell["engine"]))
