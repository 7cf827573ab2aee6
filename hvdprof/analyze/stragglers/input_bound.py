"""Stalls of the input of most ranks, which are no straggler's.

Behind prefetch queues, the rank whose queue is empty delays all others, whose queues fill
meanwhile. So of ranks that load equally slowly, one that fell behind by chance can stay the only
one that stalls for many steps.

Tested in ``tests/analyze/stragglers/test_patterns.py``.
"""

from dataclasses import replace

import numpy as np

from hvdprof.analyze.steps.step_work import Times
from hvdprof.analyze.stragglers.delay import SMALLEST_SHARE
from hvdprof.analyze.stragglers.own_time import OwnTimes
from hvdprof.model.arrays import Bools

LEAST_STALLS = 2
"""Stalls from which the queue of a rank is known to be empty at times."""

AS_LONG = 0.25
"""Smallest size of such a stall, as a share of the median stall of the rank that stalls most."""

OFTEN = 0.2
"""Share of steps with a stall of any rank from which the launch waits for its input."""

FAST_SHARE = 0.1
"""Share of the steps with the shortest times, in which the input is ready."""

_DATA = "data"


def without_stalls_of_most(spans: OwnTimes, step_ns: float) -> OwnTimes:
    """The windows with the input always ready, if more than half of the ranks stall for it often.

    A recording without phases is asked for such stalls of the whole window.
    """
    times = spans.phases.get(_DATA, spans.length)
    above = times - np.quantile(times, FAST_SHARE, axis=0)
    stalls = _stalls(above, step_ns)
    num = stalls.sum(axis=0)
    if 2 * int((num >= LEAST_STALLS).sum()) <= len(num) or stalls.any(axis=1).mean() < OFTEN:
        return spans
    ready = above if spans.phases else np.where(stalls, above, 0.0)
    phases = {**spans.phases, _DATA: times - ready} if spans.phases else spans.phases
    return replace(spans, length=spans.length - ready, phases=phases)


def _stalls(above: Times, step_ns: float) -> Bools:
    stalls = above >= SMALLEST_SHARE * step_ns
    total = np.where(stalls, above, 0.0).sum(axis=0)
    most = above[:, total.argmax()]
    own = most[most >= SMALLEST_SHARE * step_ns]
    size = float(np.median(own)) if len(own) else 0.0
    return np.asarray(above >= max(SMALLEST_SHARE * step_ns, AS_LONG * size))
