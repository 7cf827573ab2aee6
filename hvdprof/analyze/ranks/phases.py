"""The phase that a delay of ranks lies in.

Tested in ``tests/analyze/ranks/test_names.py``.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from hvdprof.analyze.ranks.account import known_medians
from hvdprof.analyze.ranks.delay import Delay
from hvdprof.analyze.ranks.rank_times import MIXED
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import Times, medians_of_others
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


class OwnTimes:
    """Own times [steps, ranks, phases] of a launch, ns, against those of the other ranks.

    The phases of what is shared cannot serve: of two ranks, the longer one of each phase exceeds
    it, so that noise of the others would count as excess of the late one.
    """

    def __init__(self, own: Times, names: Sequence[str]) -> None:
        self.own = own
        self.names = names

    def phase(self, delay: Delay, free: Bools) -> tuple[str, float]:
        """The phase that explains a delay, and its share; MIXED where no single one does.

        Args:
            delay: Of ranks.
            free: [steps] Where no other delay acts; counts for a delay that lasts.
        """
        return phase_of(self.names, self._by_phase(delay, free))

    @cached_property
    def _over_others(self) -> Times:
        return self.own - _medians_of_others(self.own)

    @cached_property
    def _others_beyond_usual(self) -> Times:
        return _medians_of_others(self.own - np.median(self.own, axis=0))

    def _by_phase(self, delay: Delay, free: Bools) -> Times:
        """[phases] The excess in its steps; of events, beyond the usual."""
        columns = list(delay.places)
        affected = delay.affected[:, columns]
        if not delay.is_event and (affected & free[:, None]).any():
            affected = affected & free[:, None]
        late = self._beyond_usual(delay) if delay.is_event else self._later(delay)
        return np.asarray(np.where(affected[..., None], late, 0.0).sum(axis=(0, 1)))

    def _later(self, delay: Delay) -> Times:
        columns = list(delay.places)
        if len(columns) == 1 and self.own.shape[1] > 1:
            return self._over_others[:, columns]
        others = np.delete(self.own, columns, axis=1)
        times = self.own[:, columns]
        return times - np.median(others, axis=1, keepdims=True) if others.shape[1] else times

    def _beyond_usual(self, delay: Delay) -> Times:
        columns = list(delay.places)
        times = self.own[:, columns]
        free = np.where(delay.affected[:, columns][..., None], np.nan, times)
        times = times - known_medians(free)
        if len(columns) == 1 and self.own.shape[1] > 1:
            return times - self._others_beyond_usual[:, columns]
        others = np.delete(self.own, columns, axis=1)
        if not others.shape[1]:
            return times
        above = others - np.median(others, axis=0)
        return np.asarray(times - np.median(above, axis=1, keepdims=True))


def _medians_of_others(own: Times) -> Times:
    return np.stack([medians_of_others(of_phase) for of_phase in np.moveaxis(own, 2, 0)], axis=2)


def phase_of(names: Sequence[str], excess: Times) -> tuple[str, float]:
    """The phase that explains an excess [phases], and its share; MIXED where no single one does."""
    if len(names) == 1:
        return MIXED, NAN
    largest, whole = int(excess.argmax()), float(excess.sum())
    share = float(excess[largest] / whole) if whole > 0 else NAN
    second = float(np.delete(excess, largest).max(initial=0.0))
    dominates = (
        names[largest] not in _COMPUTE
        and share >= DOMINANT_SHARE
        and excess[largest] >= DOMINANT_RATIO * second
    )
    return (names[largest] if share >= LEAST_EXPLAINED or dominates else MIXED), share
