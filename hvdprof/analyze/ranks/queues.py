"""Input queues that run empty on most ranks: what the ranks wait for there is shared.

Behind prefetch queues, the rank whose queue is empty delays all others, whose queues fill
meanwhile. So of ranks that load equally slowly, one that fell behind by chance can stay the only
one that waits for many steps.

Tested in ``tests/analyze/ranks/test_names.py``.
"""

from dataclasses import replace

import numpy as np

from hvdprof.analyze.ranks.delay import SMALLEST_SHARE
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools

LEAST_STALLS = 2
"""Waits from which the queue of a rank is known to be empty at times."""

AS_LONG = 0.25
"""Smallest size of such a wait, as a share of the median wait of the rank that waits most."""

OFTEN = 0.2
"""Share of steps with a wait of any rank from which the launch waits for its input."""

FAST_SHARE = 0.1
"""Share of the steps with the shortest times, in which the input is ready."""

_DATA = "data"


def without_empty_queues(times: RankTimes, step_ns: float) -> RankTimes:
    """The times with the input always ready, if more than half of the ranks wait for it often.

    A recording without phases is asked for such waits in the whole own time.

    Args:
        times: The own times of a launch.
        step_ns: The mean step time.
    """
    place = times.phases.index(_DATA) if _DATA in times.phases else -1
    own = times.of_steps(times.own_ns)
    data = own[..., place] if place >= 0 else own.sum(axis=2)
    above = data - np.quantile(data, FAST_SHARE, axis=0)
    stalls = _stalls(above, step_ns)
    num = stalls.sum(axis=0)
    if 2 * int((num >= LEAST_STALLS).sum()) <= len(num) or stalls.any(axis=1).mean() < OFTEN:
        return times
    ready = above if place >= 0 else np.where(stalls, above, 0.0)
    left = np.divide(data - ready, data, out=np.zeros_like(data), where=data > 0)
    changed = times.own_ns.copy()
    changed[..., place] *= np.repeat(left, times.per_step, axis=0)
    return replace(times, own_ns=changed)


def _stalls(above: Times, step_ns: float) -> Bools:
    stalls = above >= SMALLEST_SHARE * step_ns
    total = np.where(stalls, above, 0.0).sum(axis=0)
    most = above[:, total.argmax()]
    own = most[most >= SMALLEST_SHARE * step_ns]
    size = float(np.median(own)) if len(own) else 0.0
    return np.asarray(above >= max(SMALLEST_SHARE * step_ns, AS_LONG * size))
