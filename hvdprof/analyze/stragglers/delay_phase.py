"""The phase of a delay: the one that explains most of its excess.

Tested in ``tests/analyze/stragglers/test_patterns.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import Times
from hvdprof.analyze.stragglers.delay import SLOW, Delay, usual
from hvdprof.analyze.stragglers.named_cause import STRAGGLER
from hvdprof.analyze.stragglers.windows import UNATTRIBUTED
from hvdprof.model.arrays import Bools

LEAST_EXPLAINED = 0.8
"""Share of the excess from which a phase is named."""


def phase_of(
    phases: Mapping[str, Times], delay: Delay, slow: Sequence[int], stalls: Bools
) -> tuple[str, float]:
    """The phase of a delay, and the share of the largest phase in its excess.

    The excess of a phase is the mean over the affected entries of the rank's time, less the median
    of the normal ranks in the same step. Of a sparse delay both are less what the rank usually
    takes; of a delay of all ranks there are no others.

    Args:
        phases: [steps, ranks] by name; without phases the delay is unattributed.
        delay: What was found.
        slow: Other ranks (columns) that are not normal either.
        stalls: [steps] Steps with a sparse delay, which say nothing about slow ranks.
    """
    if not phases:
        return UNATTRIBUTED, NAN
    if delay.pattern in SLOW and (delay.affected & ~stalls[:, None]).any():
        delay = replace(delay, affected=delay.affected & ~stalls[:, None])
    excess = {name: _excess(times, delay, slow) for name, times in phases.items()}
    name = max(excess, key=lambda phase: excess[phase])
    share = excess[name] / sum(excess.values())
    return (name if share >= LEAST_EXPLAINED else UNATTRIBUTED), share


def _excess(times: Times, delay: Delay, slow: Sequence[int]) -> float:
    rows = delay.affected.any(axis=1)
    columns = list(delay.places)
    affected = delay.affected[:, columns]
    own = times[:, columns]
    above = own if delay.pattern in SLOW else own - usual(own, affected)
    chosen = affected[rows]
    excess = above[rows]
    normal = [place for place in range(times.shape[1]) if place not in {*delay.places, *slow}]
    if delay.kind == STRAGGLER and normal:
        others = times[:, normal]
        if delay.pattern not in SLOW:
            others = others - np.median(others, axis=0)
        excess = excess - np.median(others[rows], axis=1, keepdims=True)
    return float(excess[chosen].mean())
