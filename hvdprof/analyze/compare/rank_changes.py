"""Ranks whose own time in a phase changed between two runs, against the other ranks.

Each side alone may not show a rank as straggler: its threshold is 5 % of the step, and launches
place ranks on cores anew. The difference of both sides is known better than either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.compare.outcomes import chance_of, change_of
from hvdprof.analyze.ranks.named_cause import LASTING, LEAST_STEPS_OF_CAUSE, NamedCause
from hvdprof.analyze.ranks.rank_times import RankDelay, RankTimes
from hvdprof.analyze.stats.change_point import holm
from hvdprof.analyze.stats.uncertainty import Spread
from hvdprof.analyze.steps.step_work import Times, medians_of_others

SMALLEST_SHARE = 0.01
"""A smaller change, as a share of the step, is not named."""

MOST_CHANGES = 3
"""The largest changes have names; what is left is in the other terms."""

TRIMMED = 0.1
"""Longest and shortest steps count as the 90th and 10th percentile: rare stalls are no change."""


@dataclass(frozen=True, slots=True)
class RankChange:
    """How much longer a rank, by its column, takes in a phase of each step, ns; negative: less."""

    place: int
    phase: str
    change: Spread

    def is_of(self, side: int) -> bool:
        """Whether the rank takes longer in the first run (0), or in the second (1)."""
        return (self.change.value > 0) == bool(side)

    @property
    def delay(self) -> RankDelay:
        """The change as a delay of the run in which the rank takes longer."""
        return RankDelay(self.place, self.phase, abs(self.change.value))


def usual_times(times: RankTimes, named: Sequence[NamedCause]) -> dict[str, Times]:
    """[ranks] Usual own time per step in each phase, ns, without steps of sparse named causes.

    Args:
        times: The own times of a launch.
        named: Its named causes.
    """
    is_free = np.ones(len(times.steps), dtype=bool)
    for cause in named:
        if cause.pattern not in LASTING:
            is_free &= ~cause.affected.any(axis=1)
    if is_free.sum() < LEAST_STEPS_OF_CAUSE:
        is_free[:] = True
    own = times.of_steps(times.own_ns)[is_free]
    low, high = np.quantile(own, (TRIMMED, 1 - TRIMMED), axis=0)
    usual = np.clip(own, low, high).mean(axis=0)
    return {phase: np.asarray(usual[:, place]) for place, phase in enumerate(times.phases)}


def rank_changes(
    first: Sequence[dict[str, Times]],
    second: Sequence[dict[str, Times]],
    *,
    is_paired: bool,
    step_ns: float,
    level: float,
) -> tuple[RankChange, ...]:
    """The ranks that changed alone, largest first: a rank may be in it with several phases.

    The lateness of a rank in a phase is its time less the median of the others. Its change must be
    beyond the scatter of launches (Student t, Holm over ranks and phases), be at least 1 % of the
    step, and be mostly the rank's own: what most ranks share is no change of a rank. Of two ranks
    the one whose time changed more is named.

    Args:
        first: The ``usual_times`` of each launch of the first run.
        second: Those of the second run.
        is_paired: Whether launches of the same place are pairs.
        step_ns: Step time of the first run.
        level: Accepted probability that any rank is named without a change.
    """
    phases = [name for name in first[0] if all(name in times for times in (*first, *second))]
    sides = [
        np.array([[times[phase] for phase in phases] for times in side]) for side in (first, second)
    ]
    num_ranks = sides[0].shape[-1]
    if num_ranks < 2:
        return ()
    late = [
        side - medians_of_others(side.reshape(-1, num_ranks)).reshape(side.shape) for side in sides
    ]
    tested = [
        (place, number)
        for number in range(len(phases))
        for place in (range(num_ranks) if num_ranks > 2 else (0,))
    ]
    changes = [
        change_of(*(side[:, number, place] for side in late), is_paired=is_paired)
        for place, number in tested
    ]
    chances = holm([chance_of(change, step_ns) for change in changes])
    own = _own_changes(sides[1].mean(axis=0) - sides[0].mean(axis=0))
    found = []
    for (place, number), change, chance in zip(tested, changes, chances, strict=True):
        if chance > level or abs(change.value) < SMALLEST_SHARE * step_ns:
            continue
        if num_ranks == 2:
            # The lateness of two ranks differs by its sign alone.
            place = int(np.abs(own[number]).argmax())
            value = change.value if place == 0 else -change.value
            change = Spread(value, change.variance, change.degrees)
        if own[number, place] * change.value >= change.value**2 / 2:
            found.append(RankChange(place, phases[number], change))
    found.sort(key=lambda rank: -abs(rank.change.value))
    return tuple(found[:MOST_CHANGES])


def _own_changes(changes: Times) -> Times:
    """[phases, ranks] Changes less what most ranks share.

    That is the median of the ranks. Of an even number no change counts as one more: of two ranks,
    the one that stays is what is usual.
    """
    num_ranks = changes.shape[1]
    if num_ranks % 2:
        return np.asarray(changes - np.median(changes, axis=1, keepdims=True))
    with_none = np.concatenate([changes, np.zeros((len(changes), 1))], axis=1)
    return np.asarray(changes - np.median(with_none, axis=1, keepdims=True))
