"""Rules on what half of the ranks spend in the data phase, and outside all phases."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice, in_turn, sentences
from hvdprof.analyze.findings.cell_finding import (
    NO_DATA_PHASE,
    CellCost,
    CostlyCause,
    cell_name,
    cell_place,
    costly_causes,
    costs_of_baseline,
    crowding,
    has_data_phase,
    mark_data,
)
from hvdprof.analyze.findings.copy_evidence import HALF, copy_evidence
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.findings.finding import Finding, severity_of_cost
from hvdprof.analyze.findings.input_evidence import InputEvidence, input_evidence
from hvdprof.analyze.findings.input_facts import ranks_without_batches
from hvdprof.analyze.findings.line_evidence import NO_LINES, line_evidence
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.causes import ANY_RANK, INPUT_BOUND, OUTSIDE_PHASES, STRAGGLER
from hvdprof.model.cell_key import LAUNCH
from hvdprof.model.tables.collective_tables import BREAKDOWN
from hvdprof.rank_names import ranks_named

_MORE_WORKERS = advice(
    "use more DataLoader workers{where}",
    "With tf.data, use .map(..., num_parallel_calls=) and .prefetch(). Otherwise, use faster "
    "storage.",
    first="Use more DataLoader workers (num_workers=, prefetch_factor=){where}.",
)


@dataclass(frozen=True, slots=True)
class _LongestWaits:
    """Ranks that wait longest for their input; times are means per step, ns."""

    ranks: tuple[int, ...]
    own_ns: float
    others_ns: float
    others_ready: bool

    @property
    def name(self) -> str:
        """Such as ``rank 0``."""
        return ranks_named(self.ranks)

    def sentence(self, *, has_queues: bool) -> str:
        """Their times, those of the others, and what these do not show behind queues."""
        is_one = len(self.ranks) == 1
        text = (
            f"{self.name} {'spends' if is_one else 'spend'} "
            f"{units.milliseconds(self.own_ns)} per step there, the other ranks "
            f"{units.milliseconds(self.others_ns)}"
        )
        queues = ", whose queues fill meanwhile: they may load as slowly" if has_queues else ""
        queues = ", which have batches ready" if self.others_ready else queues
        return f"{text[0].upper()}{text[1:]}{queues}."


def input_bound(evidence: Evidence) -> Iterator[Finding]:
    """Most ranks wait for data, also those that no straggler's delay concerns."""
    # Waiting for data takes no core, so it is a loss with more ranks than cores, too.
    for cause, share, cost in _with_those_of_baseline(evidence, INPUT_BOUND, oversubscribed=True):
        cell = cause.cell
        sharing = crowding(evidence.run, cell)
        pinned = ", and set pin_memory=True" if cell_setting(evidence.run, cell).on_gpus else ""
        longest = _longest_waits(evidence, cause)
        own = longest.ranks if longest else _beside_stragglers(evidence, cell)
        stages = input_evidence(evidence, cell, own)
        # Where batches are ready, the lines that make them are not what to change.
        lines = NO_LINES if stages.is_ready else line_evidence(evidence, cause)
        copies = copy_evidence(evidence, cell, longest.ranks if longest else ())
        more = stages.advice if stages.advice.text else _MORE_WORKERS.formatted(where=pinned)
        # Without queues the ranks in time load as well, and what differs is the line.
        line_first = stages.is_waiting or (stages.has_none and longest)
        yield Finding(
            "input-bound",
            severity_of_cost(share),
            cell_name(cell),
            "data phase slowed by busy cores" if stages.is_ready else "input-bound",
            sentences(
                f"{cell_place(cell)}: {_waited(cause, share, longest)}.",
                longest.sentence(has_queues=not stages.has_none) if longest else "",
                stages.sentence,
                copies.sentence,
                lines.sentence,
                _of_baseline(cause, share),
                sharing,
            ),
            in_turn(*((lines.fix, more) if line_first else (more, lines.fix)), copies.advice),
            "possible" if sharing or stages.is_ready or stages.has_batches else "certain",
            detail="" if stages.is_ready else _who_waits(cause, longest, stages),
            **cost,
            **lines.columns,
        )


def _beside_stragglers(evidence: Evidence, cell: Cell) -> tuple[int, ...]:
    """The ranks but those that are named for their data phase; empty where none is."""
    named = _stragglers(evidence, cell, ["data"])
    return tuple(rank for rank in range(int(cell["np"])) if named and rank not in named)


def _stragglers(evidence: Evidence, cell: Cell, phases: Sequence[str] = ()) -> set[int]:
    """The ranks that are named, of these phases or of all."""
    rows = [row for row in evidence.causes_of(cell) if row["term"] == STRAGGLER]
    return {n for row in rows if not phases or row["phase"] in phases for n in ranks_of(row)}


def _with_those_of_baseline(
    evidence: Evidence, term: str, *, oversubscribed: bool = False
) -> Iterator[tuple[CostlyCause, float, CellCost]]:
    """Losses of scaling, then what costs as much in the baseline, each with share and cost."""
    for cause in costly_causes(evidence, term, oversubscribed=oversubscribed):
        yield cause, cause.share, cause.cost
    for cause in costs_of_baseline(evidence, term, oversubscribed=oversubscribed):
        yield cause, cause.whole_share, cause.whole_cost


def _who_waits(cause: CostlyCause, longest: _LongestWaits | None, stages: InputEvidence) -> str:
    if stages.has_batches:
        return "taking over batches that are ready"
    if longest:
        return f"{longest.name} {'waits' if len(longest.ranks) == 1 else 'wait'} longest"
    if cause.row["ranks"] == ANY_RANK:
        return "ranks wait for data in turn"
    return f"{'every' if cause.cell['np'] > 1 else 'the'} rank waits for data"


def _waited(cause: CostlyCause, share: float, longest: _LongestWaits | None) -> str:
    if longest is None:
        in_turn = ", most of it one at a time" if cause.row["ranks"] == ANY_RANK else ""
        return f"{_spent(cause, share)} in the data phase{in_turn}"
    more = " more than in the baseline" if cause.has_baseline and share == cause.share else ""
    return f"waits for data take {_share_text(cause, share)} of the step{more}"


def _share_text(cause: CostlyCause, share: float) -> str:
    return cause.share_text if share == cause.share else units.percent(share)


def _spent(cause: CostlyCause, share: float) -> str:
    whose = "ranks on time spend" if cause.cell["np"] > 1 else "the rank spends"
    more = " more than the baseline" if cause.has_baseline and share == cause.share else ""
    return f"{whose} {_share_text(cause, share)} of the step{more}"


def _of_baseline(cause: CostlyCause, share: float) -> str:
    """What the baseline spends there, where there is one."""
    if not cause.has_baseline:
        return ""
    if share != cause.share:
        spent = units.percent(cause.baseline_share)
        return f"The baseline spends {spent} there as well: no loss of scaling."
    return f"With what the baseline spends, it is {units.percent(cause.whole_share)} of the step."


_BETWEEN_STEPS = advice(
    "look for what the loop does between steps: metrics that call .item(), logging, checkpoints",
    "Do it less often.",
)

_IN_NO_PHASE = "between steps, or outside data, forward, backward and optimizer"
_BEFORE_THE_UPDATE = "in no phase, most of it between backward and the update"

_BEFORE_UPDATE = advice(
    "look for what the loop does between backward() and optimizer.step(): norms of gradients, "
    ".item(), logging, copies to the host",
    "Do it every few steps. Clip with clip_grad_norm_(..., foreach=True).",
)


def outside_phases(evidence: Evidence) -> Iterator[Finding]:
    """All ranks spend time outside all phases, most of it between steps."""
    for cause, share, cost in _with_those_of_baseline(evidence, OUTSIDE_PHASES):
        has_data = has_data_phase(evidence, cause.cell)
        whose = "all ranks" if cause.cell["np"] > 1 else "the rank"
        is_before = _lies_before_update(evidence, cause)
        has_data |= is_before
        where = _IN_NO_PHASE
        lines = line_evidence(evidence, cause)
        action, copies = _BETWEEN_STEPS, copy_evidence(evidence, cause.cell)
        is_copy = copies.share >= HALF * share
        if is_before:
            whose += ", before the update"
            where, action = _BEFORE_THE_UPDATE, _BEFORE_UPDATE
        yield Finding(
            "outside-phases",
            severity_of_cost(share),
            cell_name(cause.cell),
            f"{'' if has_data else 'data loading or '}time outside phases: {whose}",
            sentences(
                f"{cell_place(cause.cell)}: {_spent(cause, share)} {where}.",
                "" if has_data else NO_DATA_PHASE,
                _of_baseline(cause, share),
                copies.sentence,
                lines.sentence,
            ),
            in_turn(
                copies.advice if is_copy else Advice(),
                lines.fix,
                Advice() if has_data else mark_data(evidence.run),
                action,
            ),
            "likely",
            **cost,
            **lines.columns,
        )


_UPDATE_PHASE = "before_update"


def _longest_waits(evidence: Evidence, cause: CostlyCause) -> _LongestWaits | None:
    """The ranks that wait longest for input, by WATERFALL; None where most wait about as long.

    Args:
        evidence: The run.
        cause: The row of WATERFALL on input.
    """
    times = _times_by_rank(evidence, cause, ("data",))
    ranks = [rank for rank in ranks_of(cause.row) if rank in times]
    others = [ns for rank, ns in times.items() if rank not in ranks]
    if not ranks or not others:
        return None
    own = float(np.mean([times[rank] for rank in ranks]))
    are_ready = ranks_without_batches(evidence, cause.cell) == tuple(ranks)
    return _LongestWaits(tuple(ranks), own, float(np.median(others)), are_ready)


def _lies_before_update(evidence: Evidence, cause: CostlyCause) -> bool:
    """Whether most of a time outside all phases lies between backward and the update."""
    whole = sum(_times_by_rank(evidence, cause, ("outside", _UPDATE_PHASE)).values())
    before = sum(_times_by_rank(evidence, cause, (_UPDATE_PHASE,)).values())
    return before > whole / 2


def _times_by_rank(
    evidence: Evidence, cause: CostlyCause, parts: Sequence[str]
) -> dict[int, float]:
    """Mean time by rank over the launches, ns, without the ranks that are named stragglers."""
    cell = cause.cell
    rows = evidence.rows_of(evidence.table(BREAKDOWN.name), cell)
    rows = rows[rows["part"].isin(parts)]
    named = _stragglers(evidence, cell)
    by_launch = rows.groupby([*LAUNCH, "rank"], observed=True)["time_ns"].sum()
    means = by_launch.groupby("rank").mean()
    return {int(str(rank)): float(ns) for rank, ns in means.items() if int(str(rank)) not in named}
