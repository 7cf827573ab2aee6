"""Rules on evaluations of all ranks, whose time is in no step time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice, in_turn, sentences
from hvdprof.analyze.findings.cell_finding import cell_name, cell_place, cost_of, crowding
from hvdprof.analyze.findings.evidence import Cell, Evidence, is_base
from hvdprof.analyze.findings.finding import SMALLEST_COST, Finding, severity_of_cost
from hvdprof.analyze.steps.evaluation_time import EvaluationTime, evaluation_times
from hvdprof.analyze.steps.step_work import Times, medians_of_others
from hvdprof.model.job_losses import EVALUATION_EXCLUDED
from hvdprof.model.tables.run_tables import STEPS, TURNS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from hvdprof.model.tables.window_tables import EVALUATIONS

STRAGGLER = "evaluation-straggler"

_FEW = {1: "one evaluation", 2: "two evaluations"}
"""So few do not show that it is always the same rank; what they show is said with that."""

LAST_SHARE = 0.8
"""A rank that the others wait for in this share of the evaluations is a straggler there."""

EXPLAINED = 0.8
"""The delay is in the evaluation itself where its time explains this share."""

CHANCE = 0.05
"""So rarely may one rank be the last in all evaluations by chance, or the finding is no more than
possible."""

_LESS = advice("run the evaluation less often, or on fewer batches")
_SPLIT = advice(
    "split the evaluation evenly with a DistributedSampler",
    "Look for what only rank {rank} does in it.",
)
_BEHIND = advice(
    "look for what only rank {rank} does after its last evaluation pass: a checkpoint, metrics, "
    "logging",
    "Do it less often, or in a thread of its own.",
)
_MEASURE = advice("record three evaluations or more, to see whether it is always this rank")


def evaluations(evidence: Evidence) -> Iterator[Finding]:
    """Evaluations of all ranks from 5 % of the recorded time on, and the rank that delays them."""
    names = (STEPS.name, JOB_STEPS.name, EVALUATIONS.name, TURNS.name)
    times = evaluation_times(*(evidence.table(name) for name in names))
    if not times:
        return
    for cell in evidence.cells(oversubscribed=True):
        if not is_base(cell):
            continue
        keys = evidence.launches_of(cell)
        found = [times[key] for key in keys.itertuples(index=False, name=None) if key in times]
        if found:
            yield from _of_cell(evidence, cell, found, len(keys))


def _of_cell(
    evidence: Evidence, cell: Cell, found: Sequence[EvaluationTime], num_launches: int
) -> Iterator[Finding]:
    recorded_ns = sum(launch.recorded_ns for launch in found)
    each = np.concatenate([launch.each_ns for launch in found])
    share = float(each.sum()) / recorded_ns
    if share < SMALLEST_COST:
        return
    where = f" in {len(found)} of {num_launches} launches" if num_launches > 1 else ""
    what = "1 evaluation takes" if len(each) == 1 else f"{len(each)} evaluations take"
    yield Finding(
        EVALUATION_EXCLUDED,
        "note",
        cell_name(cell),
        "evaluation outside the step times",
        sentences(
            f"{cell_place(cell)}: {what} {_each(each)}{where}, {units.percent(share)} of the "
            f"recorded {units.seconds(recorded_ns / 1e9)}.",
            "Rates and step times are those of training steps alone.",
        ),
        _LESS,
        "certain",
        **cost_of(cell),
        job_share=share,
    )
    last = _last_rank(found)
    if last is None or last.total_ns < SMALLEST_COST * recorded_ns:
        return
    is_inside = last.explained >= EXPLAINED
    sharing = crowding(evidence.run, cell)
    is_chance = cell["np"] ** (1 - last.number) > CHANCE
    few = _FEW.get(last.num_evaluations, "")
    severity = severity_of_cost(last.total_ns / recorded_ns)
    yield Finding(
        STRAGGLER,
        "warning" if few and severity == "error" else severity,
        f"rank {last.rank}",
        f"straggler {'in' if is_inside else 'after'} {few or 'the evaluation'}",
        sentences(
            f"{cell_place(cell)}: the other ranks wait for rank {last.rank} in "
            f"{last.number} of {last.num_evaluations} evaluations, for {_each(last.waits)}.",
            f"Time in evaluation passes explains {units.percent(last.explained, 0)} of the delay.",
            few and f"{few.capitalize()}: no interval, no evidence that it is always this rank.",
            sharing,
        ),
        in_turn(
            (_SPLIT if is_inside else _BEHIND).formatted(rank=last.rank),
            _MEASURE if few else Advice(),
        ),
        "possible" if sharing or is_chance or few else "likely",
        detail=f"rank {last.rank}",
        **cost_of(cell),
        job_share=last.total_ns / recorded_ns,
    )


@dataclass(frozen=True, slots=True)
class _LastRank:
    """The rank that others wait for: ``waits`` of the median other rank, and what explains them."""

    rank: int
    num_evaluations: int
    waits: Times
    explained: float

    @property
    def number(self) -> int:
        """Evaluations in which the others wait for it."""
        return len(self.waits)

    @property
    def total_ns(self) -> float:
        """All of the waiting."""
        return float(self.waits.sum())


def _last_rank(found: Sequence[EvaluationTime]) -> _LastRank | None:
    """The rank that the others wait for in most evaluations; None where there is none.

    All are released together, so the last one waits least: no clock of another host is needed.
    """
    ranks = found[0].ranks
    if len(ranks) < 2 or any(not np.array_equal(launch.ranks, ranks) for launch in found):
        return None
    blocked = np.concatenate([launch.blocked[launch.is_followed] for launch in found])
    if not len(blocked) or np.isnan(blocked).any():
        return None
    last = blocked.argmin(axis=1)
    column = int(np.bincount(last).argmax())
    waits = (medians_of_others(blocked) - blocked)[:, column]
    is_last = (last == column) & (waits > 0)
    if is_last.sum() < LAST_SHARE * len(blocked):
        return None
    inside = np.concatenate([launch.inside[launch.is_followed] for launch in found])
    longer = (inside - medians_of_others(inside))[is_last, column]
    return _LastRank(
        rank=int(ranks[column]),
        num_evaluations=len(blocked),
        waits=waits[is_last],
        explained=float(np.clip(longer.sum() / waits[is_last].sum(), 0.0, 1.0)),
    )


def _each(times: Times) -> str:
    """``517 ms each (515 ms to 519 ms)``; a single one without its range."""
    mean = units.milliseconds(float(times.mean()))
    if len(times) == 1:
        return mean
    ends = (units.milliseconds(float(end)) for end in (times.min(), times.max()))
    return f"{mean} each ({' to '.join(ends)})"
