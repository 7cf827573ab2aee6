"""The second sentence of a verdict: the largest loss of the cell, its cost and its fix."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import is_costly
from hvdprof.analyze.findings.finding import SMALLEST_COST, WARNING_COST
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.verdict.agreement import CellAccount, contradiction
from hvdprof.analyze.verdict.evaluation_loss import loss_beyond_steps
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name, code_of_finding, ranks_of, short_cause_name
from hvdprof.model.causes import (
    BASELINE_CREDIT,
    CAUSES,
    INPUT_BOUND,
    JITTER,
    OUTSIDE_PHASES,
    PAUSE,
    STRAGGLER,
)
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.run import Sentence, Verdict

_RULE_OF = {INPUT_BOUND: "input-bound", OUTSIDE_PHASES: "outside-phases"}
"""Terms that one rank alone has as well, and the rule on each."""

LONG_STEPS = "stalled-steps"
"""The rule on long steps of one rank, which also names them where WATERFALL has no rows."""

SMALLEST_OFFSET = 0.02
"""Gains are named from here on: the largest loss then exceeds the whole lost efficiency."""

ABOUT_AS_LARGE = 0.9
"""A second cause of this part of the largest one is named beside it, where intervals overlap."""


@dataclass(frozen=True, slots=True)
class LargestLoss:
    """The costliest cause of a step of a cell: its name, its share of the step, and a sentence.

    Where a straggler in evaluations costs the job more, the sentence is on that. Where steps have
    no cause that costs enough, the name is empty then and the share NaN. ``rival`` is a second
    cause about as large; empty where there is none.
    """

    name: str
    share: float
    sentence: Sentence
    cause_id: str = ""
    rival: str = ""


def largest_loss(
    waterfall: pd.DataFrame,
    findings: pd.DataFrame,
    cell: pd.Series,
    *,
    smallest: float = SMALLEST_COST,
    terms: Sequence[str] = tuple(CAUSES),
    account: CellAccount | None = None,
) -> LargestLoss | None:
    """The largest loss of a cell without toggles; None where none costs enough.

    Where the account of its ranks contradicts the cause, the sentence says so, without a fix.
    A smaller cause with an address in the script follows with its own fix.

    Without a baseline, time in the data phase and between steps of no single rank is named from a
    tenth of the step on: every loop has some. What the engine itself costs one rank has no fix.

    Args:
        waterfall: WATERFALL of the run.
        findings: FINDINGS of the run: the one on that cause holds its fix.
        cell: A row of SCALING.
        smallest: Share of the step below which a cause is not named.
        terms: The terms to choose from.
        account: That of the ranks of the cell, by which the cause is checked.
    """
    model, np_, engine = str(cell["model"]), int(cell["np"]), str(cell["engine"])
    rows = of_base_cell(waterfall, model, np_, engine).to_dict("records")
    costly = [
        row
        for row in rows
        if is_costly(row) and row["term"] in terms and row["share"] >= smallest and _is_worth(row)
    ]
    costly.sort(key=lambda row: -float(row["share"]))
    least = float(costly[0]["share"]) if costly else smallest
    if PAUSE in terms and (stalls := _long_steps(findings, cell, least)):
        return stalls
    if not costly:
        beyond = loss_beyond_steps(findings, cell, NAN)
        return LargestLoss("", NAN, beyond) if beyond else None
    row, *others = costly
    if account is not None and (against := contradiction(row, rows, account)):
        return LargestLoss("", NAN, against)
    beyond = loss_beyond_steps(findings, cell, float(row["share"]))
    rival = "" if beyond else _rival(row, others)
    also = f", {rival}" if rival else ""
    said = beyond or _sentence("Largest loss", findings, cell, row, also)
    following = None if beyond else _following(row, others[bool(rival) :])
    if following is not None:
        after = _sentence("Next", findings, cell, following)
        said = Sentence(f"{said.text} {after.text}", f"{said.short} {after.short}")
    name = cause_name(row)
    return LargestLoss(name, float(row["share"]), said, str(row["cause_id"]), rival)


def _sentence(
    begin: str, findings: pd.DataFrame, cell: pd.Series, row: FrameRow, also: str = ""
) -> Sentence:
    time = units.milliseconds_within(row["time_ns"], row["time_low_ns"], row["time_high_ns"])
    share = units.percent_within(row["share"], row["share_low"], row["share_high"])
    of_cell = _of_cell(findings, cell, str(row["cause_id"]))
    named, fix, at = cause_name(row), "", ""
    if not of_cell.empty:
        place = code_of_finding(of_cell.iloc[0].to_dict())
        at = f": {place}" if place else ""
        named, fix = str(of_cell.iloc[0]["phrase"]), f"; fix: {of_cell.iloc[0]['fix']}"
    what = f"{begin}: {named}, {time} per step"
    return Sentence(f"{what} ({share}){also}{at}{fix}.", f"{what}{at}.")


def nothing_large(waterfall: pd.DataFrame, cell: pd.Series) -> Sentence | None:
    """``No large loss: the largest is input, 4.9 ± 0.4 % of the step.``, for such a cell.

    The largest term with its interval bounds what is lost. None where the steps have no phases:
    what they spend on input is unknown.

    Args:
        waterfall: WATERFALL of the run.
        cell: A row of SCALING without a largest loss.
    """
    rows = of_base_cell(waterfall, str(cell["model"]), int(cell["np"]), str(cell["engine"]))
    rows = rows[rows["term"].isin(set(CAUSES) - {BASELINE_CREDIT})]
    if not (rows["term"] == INPUT_BOUND).any():
        return None
    row = max(rows.to_dict("records"), key=lambda row: float(row["share"]))
    # A term as large as a finding is none only where its interval reaches 0.
    is_unsure = float(row["share"]) >= SMALLEST_COST and not is_costly(row)
    share = units.percent_interval(row["share"], row["share_low"], row["share_high"])
    none = "No certain loss" if is_unsure else "No large loss"
    what = f"{none}: the largest is {short_cause_name(row)}, {share} of the step."
    return Sentence(what, f"{none}.")


def cost_of_baseline(
    waterfall: pd.DataFrame,
    findings: pd.DataFrame,
    cell: pd.Series,
    *,
    terms: Sequence[str] = tuple(CAUSES),
) -> Sentence | None:
    """A sentence on the largest cost that the baseline has as well; None where none is large.

    For cells that lose nothing: what the baseline has, too, is no loss of scaling, yet a cost.

    Args:
        waterfall: WATERFALL of the run.
        findings: FINDINGS of the run: the one on that cost holds its fix.
        cell: A row of SCALING.
        terms: The terms to choose from.
    """
    model, np_, engine = str(cell["model"]), int(cell["np"]), str(cell["engine"])
    rows = [
        row
        for row in of_base_cell(waterfall, model, np_, engine).to_dict("records")
        if row["term"] in _RULE_OF and row["term"] in terms and _whole_share(row) >= WARNING_COST
    ]
    if not rows:
        return None
    row = max(rows, key=_whole_share)
    whole_ns = float(row["time_ns"]) + float(row["baseline_ns"])
    share = units.percent(_whole_share(row))
    known = findings[(findings["model"] == model) & (findings["id"] == _RULE_OF[str(row["term"])])]
    fix = "" if known.empty else f"; fix: {known.iloc[0]['fix']}"
    what = (
        f"Largest cost, in the baseline as well: {cause_name(row)}, "
        f"{units.milliseconds(whole_ns)} per step"
    )
    return Sentence(f"{what} ({share}){fix}.", f"{what}.")


def _of_cell(findings: pd.DataFrame, cell: pd.Series, cause_id: str) -> pd.DataFrame:
    model, np_, engine = str(cell["model"]), int(cell["np"]), str(cell["engine"])
    return findings[
        (findings["model"] == model)
        & (findings["np"] == np_).fillna(False)
        & (findings["engine"] == engine)
        & (findings["cause_id"] == cause_id)
    ]


def _long_steps(findings: pd.DataFrame, cell: pd.Series, least: float) -> LargestLoss | None:
    """Long steps of one rank that are no row of WATERFALL, where they cost at least this share."""
    of_cell = _of_cell(findings, cell, "")
    found = of_cell[((of_cell["id"] == LONG_STEPS) & (of_cell["cost_share"] >= least)).to_numpy()]
    if found.empty:
        return None
    row = found.iloc[0]
    name, share = str(row["phrase"]), float(row["cost_share"])
    what = f"Largest loss: {name}, {units.milliseconds(float(row['cost_ns']))} per step"
    said = Sentence(f"{what} ({units.percent(share)}); fix: {row['fix']}.", f"{what}.")
    return LargestLoss(name, share, loss_beyond_steps(findings, cell, share) or said)


def _following(row: FrameRow, others: Sequence[FrameRow]) -> FrameRow | None:
    """The next cause with an address in the script: of some ranks or events, else of all ranks.

    A phase of all ranks follows only where the largest loss has no address at all.
    """
    known = set(ranks_of(row))
    # Jitter of a rank that is named already says nothing new.
    new = (one for one in others if one["term"] != JITTER or not known.issuperset(ranks_of(one)))
    addressed = (one for one in new if ranks_of(one) or one["term"] in (STRAGGLER, PAUSE))
    if (found := next(addressed, None)) is not None:
        return found
    phases = (INPUT_BOUND, OUTSIDE_PHASES)
    if ranks_of(row) or row["term"] in (STRAGGLER, PAUSE, *phases):
        return None
    return next((one for one in others if one["term"] in phases), None)


def _whole_share(row: FrameRow) -> float:
    """The share with that of the baseline; NaN without a baseline."""
    return float(row["share"]) + float(row["baseline_share"])


def _rival(row: FrameRow, others: Sequence[FrameRow]) -> str:
    """The second cause, where it is about as large and their intervals overlap; may be empty."""
    if not others or others[0]["share"] < ABOUT_AS_LARGE * row["share"]:
        return ""
    second = others[0]
    # Where intervals are not known, they may overlap.
    if second["share_high"] < row["share_low"]:
        return ""
    share = units.percent_within(second["share"], second["share_low"], second["share_high"])
    return f"about as large as {cause_name(second)} ({share})"


def _is_worth(row: FrameRow) -> bool:
    if row["term"] not in (INPUT_BOUND, OUTSIDE_PHASES) or ranks_of(row):
        return True
    if not math.isnan(row["baseline_share"]):
        return True
    return float(row["share"]) >= WARNING_COST


def offset(verdict: Verdict) -> str:
    """A sentence on gains that offset a part of the largest loss; may be empty."""
    made_up = verdict.biggest_loss_share - (1 - verdict.efficiency)
    if not made_up > SMALLEST_OFFSET:
        return ""
    points = units.points(made_up).removeprefix("+")
    share = units.points(verdict.biggest_loss_share).removeprefix("+")
    return f"Gains, and losses that the baseline has too, offset {points} of these {share}."
