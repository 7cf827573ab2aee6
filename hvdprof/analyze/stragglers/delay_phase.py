"""The phase of a delay: the one that explains most of its excess.

Tested in ``tests/analyze/stragglers/test_patterns.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import Times
from hvdprof.analyze.stragglers.delay import SLOW, Delay, usual
from hvdprof.analyze.stragglers.named_cause import STRAGGLER
from hvdprof.analyze.stragglers.own_time import MIXED
from hvdprof.model.arrays import Bools

LEAST_EXPLAINED = 0.8
"""Share of the excess from which a phase is named in any case."""

DOMINANT_SHARE, DOMINANT_RATIO = 0.5, 2.0
"""A phase other than compute is named from half of the excess on, if no other has half as much.

Waiting for data cools caches, so that the forward pass of the same rank takes longer, too: a rank
with 40 ms in its data phase had 74 % of its excess there. Slow compute lengthens forward and
backward in proportion, so neither explains the delay alone.
"""

_COMPUTE = ("forward", "backward")


@dataclass(frozen=True, slots=True)
class PhaseOfDelay:
    """The phase of a delay of these ranks (columns); ``share`` is that of the largest phase."""

    places: tuple[int, ...]
    phase: str
    share: float


def split_by_phase(
    phases: Mapping[str, Times], delay: Delay, slow: Sequence[int], stalls: Bools
) -> list[PhaseOfDelay]:
    """The phase of a delay; of ranks that are slow, one for the ranks of each phase.

    The excess of a phase is the mean over the affected entries of the rank's time, less the median
    of the normal ranks in the same step. Of a sparse delay both are less what the rank usually
    takes; of a delay of all ranks there are no others.

    Args:
        phases: [steps, ranks] by name; without phases the delay is mixed.
        delay: What was found.
        slow: Other ranks (columns) that are not normal either.
        stalls: [steps] Steps with a sparse delay, which say nothing about slow ranks.
    """
    if not phases:
        return [PhaseOfDelay(delay.places, MIXED, NAN)]
    is_slow = delay.pattern in SLOW
    if is_slow and (delay.affected & ~stalls[:, None]).any():
        delay = replace(delay, affected=delay.affected & ~stalls[:, None])
    of_rank = np.stack([_excess(times, delay, slow) for times in phases.values()])
    names = list(phases)
    if not is_slow:
        return [_phase(names, of_rank.sum(axis=1), delay.places)]
    each = [
        _phase(names, excess, (place,))
        for excess, place in zip(of_rank.T, delay.places, strict=True)
    ]
    found: list[PhaseOfDelay] = []
    for name in dict.fromkeys(part.phase for part in each):
        alike = [part for part in each if part.phase == name]
        places = tuple(place for part in alike for place in part.places)
        found.append(PhaseOfDelay(places, name, float(np.mean([part.share for part in alike]))))
    return found


def _phase(names: Sequence[str], excess: Times, places: tuple[int, ...]) -> PhaseOfDelay:
    largest = int(excess.argmax())
    share = float(excess[largest] / excess.sum())
    second = float(np.delete(excess, largest).max(initial=0.0))
    dominates = (
        names[largest] not in _COMPUTE
        and share >= DOMINANT_SHARE
        and excess[largest] >= DOMINANT_RATIO * second
    )
    is_named = share >= LEAST_EXPLAINED or dominates
    return PhaseOfDelay(places, names[largest] if is_named else MIXED, share)


def _excess(times: Times, delay: Delay, slow: Sequence[int]) -> Times:
    """[ranks of the delay] Sum of the excess over the affected entries."""
    rows = delay.affected.any(axis=1)
    columns = list(delay.places)
    own, affected = times[:, columns], delay.affected[:, columns]
    if delay.pattern not in SLOW:
        own = own - usual(own, affected)
    excess = own[rows]
    taken = {*delay.places, *slow}
    normal = [place for place in range(times.shape[1]) if place not in taken]
    if delay.kind == STRAGGLER and normal:
        others = times[:, normal]
        if delay.pattern not in SLOW:
            others = others - np.median(others, axis=0)
        excess = excess - np.median(others[rows], axis=1, keepdims=True)
    return np.asarray(np.where(affected[rows], excess, 0.0).sum(axis=0))
