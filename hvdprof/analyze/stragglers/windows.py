"""The time of each rank from release to its next arrival, measured on its own clock alone.

All ranks are released from a step's collectives together, so these times compare ranks without
clock error, and a slow backward pass is visible although waiting makes the wall times of all ranks
equal.

Tested in ``tests/analyze/stragglers/test_stragglers.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.steps.step_work import StepWork, Times, medians_of_others

PAUSE_PHASE = "pause"
"""Time outside every phase."""

UNATTRIBUTED = "unattributed"

_PARTS_BEFORE = ("data", "forward", "backward")


@dataclass(frozen=True, slots=True)
class Windows:
    """From release to arrival [steps, ranks], ns, and its phases.

    ``phases`` is empty where the recording holds no phases.
    """

    length: Times
    phases: Mapping[str, Times]


def windows(work: StepWork) -> Windows:
    """The steps with a known previous step; ``phases`` sum to ``length``."""
    rows = np.flatnonzero(work.follows)
    after = work.after[rows - 1]
    length = after + work.before[rows]
    if not work.own.any():
        return Windows(length, {})
    phases = {name: work.parts[name][rows] for name in _PARTS_BEFORE}
    # What follows the optimizer in the previous step is outside every phase.
    phases["optimizer"] = np.minimum(after, work.parts["optimizer"][rows - 1])
    phases[PAUSE_PHASE] = length - sum(phases.values())
    return Windows(length, phases)


def lateness(times: Times) -> Times:
    """Each rank's time minus the median of the other ranks in the same step, [steps, ranks]."""
    return times - medians_of_others(times) if times.shape[1] > 1 else np.zeros_like(times)
