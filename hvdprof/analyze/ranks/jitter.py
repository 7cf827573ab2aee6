"""The address of jitter: the rank and phase that most of its cost lies on."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hvdprof.analyze.ranks.account import account, costs_of
from hvdprof.analyze.ranks.chances import block_length, chances_of_costs, exceeds_scatter
from hvdprof.analyze.ranks.named_cause import LASTING, SMALLEST_SHARE, NamedCause
from hvdprof.analyze.ranks.queues import are_late, without_empty_queues
from hvdprof.analyze.ranks.rank_times import MIXED, RankTimes
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.other_load import LEAST_EXPLAINED
from hvdprof.analyze.steps.step_work import Times, medians_of_others

MOST = 0.75
"""Share of the cost from which it lies on one rank, or in one phase of it."""

CHANCE = 0.01
"""The chance that any of equal ranks is as late, above which jitter is no rank's."""


@dataclass(frozen=True, slots=True)
class JitterRank:
    """The rank of most of the jitter, its phase (empty: no single one), and the chance of it."""

    rank: int
    phase: str
    chance: float = field(default=NAN, compare=False)


def jitter_rank(
    launches: Sequence[RankTimes], named: Sequence[Sequence[NamedCause]]
) -> JitterRank | None:
    """The rank with 75 % of the cost that no named cause explains, and 5 % of the step; or None.

    It costs most in every launch, and beyond their scatter: ranks differ from launch to launch by
    where they are placed.
    Nor is it one rank's where chance would give any rank as much in one of 100 launches, and where
    waits for a core explain it that do not last.

    Args:
        launches: The own times of each launch of a cell.
        named: The named causes of each launch.
    """
    if not launches or len({len(one.ranks) for one in launches}) > 1:
        return None
    ranks, phases = launches[0].ranks, launches[0].phases
    if len(ranks) < 2 or any(one.phases != phases for one in launches):
        return None
    rest = [_unnamed(one, causes) for one, causes in zip(launches, named, strict=True)]
    by_launch = [costs_of(excess) for excess in rest]
    costs = np.concatenate(by_launch)
    of_ranks = costs.sum(axis=(0, 2))
    place = int(of_ranks.argmax())
    least = max(MOST * float(of_ranks.sum()), SMALLEST_SHARE * len(costs))
    if of_ranks[place] < least:
        return None
    wanted = np.arange(len(of_ranks)) == place
    if any(int(one.sum(axis=(0, 2)).argmax()) != place for one in by_launch):
        return None
    if not all(are_late(one, [place]) for one in launches):
        return None
    late = np.array([_lateness(one.sum(axis=2)) for one in rest])
    if len(rest) > 1 and not exceeds_scatter(late, [place]):
        return None
    lost = np.mean([one.core_losses.get(int(ranks[place]), 0.0) for one in launches])
    if lost >= LEAST_EXPLAINED * of_ranks[place] / len(costs):
        return None
    length = max(block_length(one.sum(axis=2), wanted) for one in rest)
    chances = chances_of_costs([one.sum(axis=2) for one in by_launch], length)
    if chances[place] > CHANCE:
        return None
    by_phase = costs[:, place].sum(axis=0)
    largest = int(by_phase.argmax())
    is_one = by_phase[largest] >= MOST * by_phase.sum() and phases[largest] != MIXED
    phase = phases[largest] if is_one else ""
    return JitterRank(int(ranks[place]), phase, float(chances[place]))


def _lateness(excess: Times) -> Times:
    """[ranks] Mean over the steps of what a rank has more than the median of the others."""
    return np.asarray((excess - medians_of_others(excess)).mean(axis=0))


def _unnamed(times: RankTimes, causes: Sequence[NamedCause]) -> Times:
    """[steps, ranks, phases] The excess, as a share of the step, that no named cause explains.

    A rank that is slower on average keeps its jitter around that.
    """
    times = without_empty_queues(times)
    excess = times.of_steps(account(times).excess_ns) / times.step_ns
    for cause in causes:
        affected = cause.affected[..., None]
        if cause.pattern in LASTING:
            num = np.maximum(affected.sum(axis=0), 1)
            mean = np.where(affected, excess, 0.0).sum(axis=0) / num
            excess = np.where(affected, excess - mean, excess)
        else:
            excess = np.where(affected, np.minimum(excess, 0.0), excess)
    return excess
