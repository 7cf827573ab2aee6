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
from hvdprof.model.arrays import Int64s

OUTSIDE_PHASE = "outside"
"""Time outside every phase."""

BEFORE_UPDATE = "before_update"
"""Time from the end of backward to the update."""

EVALUATION_PHASE = "evaluation"
"""Time outside every phase where the rank evaluates, which other ranks do not."""

MIXED = "mixed"

_PARTS_BEFORE = ("data", "forward", "backward")


@dataclass(frozen=True, slots=True)
class OwnTimes:
    """From release to arrival [steps, ranks], ns, and its phases.

    ``phases`` is empty where the recording holds no phases. ``rows`` are those of the StepWork, and
    ``steps`` the numbers of the steps of the script: some may be missing between two rows. A row is
    the mean of ``steps_per_row`` steps.
    """

    length: Times
    phases: Mapping[str, Times]
    rows: Int64s
    steps: Int64s
    steps_per_row: int = 1

    @property
    def numbers(self) -> Int64s:
        """The places of the rows among all rows, in which a regular distance is looked for."""
        return np.asarray(self.steps // self.steps_per_row)


def own_times(work: StepWork) -> OwnTimes:
    """The steps with a known previous step; ``phases`` sum to ``length``."""
    rows = np.flatnonzero(~np.isnan(work.previous_after).any(axis=1))
    after = work.previous_after[rows]
    length, steps = after + work.own_before_sync[rows], work.steps[rows]
    if not work.own.any():
        return OwnTimes(length, {}, rows, steps, work.steps_per_row)
    phases = {name: work.parts[name][rows] for name in _PARTS_BEFORE}
    # What follows the optimizer in the previous step is outside every phase.
    phases["optimizer"] = np.minimum(after, work.previous_optimizer[rows])
    # It lies behind the release where gradients are reduced by then, else before the arrival.
    before = work.parts["before_update"] - work.behind_release
    phases[BEFORE_UPDATE] = before[rows] + work.previous_behind_release[rows]
    outside, evaluates = length - sum(phases.values()), work.evaluates[rows]
    phases[OUTSIDE_PHASE] = np.where(evaluates, 0.0, outside)
    if evaluates.any():
        phases[EVALUATION_PHASE] = np.where(evaluates, outside, 0.0)
    return OwnTimes(length, phases, rows, steps, work.steps_per_row)


def lateness_of(work: StepWork, spans: OwnTimes) -> Times:
    """[steps, ranks] Lateness in the windows of a launch, ns.

    In steps with several synchronizations it is that of the own time before each of them, summed
    up: the ranks that are late at one of them are no measure at another.

    Args:
        work: The launch.
        spans: Its ``own_times``.
    """
    points = work.syncs
    if points is None or spans.length.shape[1] < 2:
        return lateness(spans.length)
    num_ranks = len(work.ranks)
    before = points.before.reshape(-1, points.per_step, num_ranks)[spans.rows]
    before[:, 0] += work.previous_after[spans.rows]
    return points.of_steps(lateness(before.reshape(-1, num_ranks)))


def lateness(times: Times) -> Times:
    """Each rank's time minus the median of the other ranks in the same step, [steps, ranks]."""
    return times - medians_of_others(times) if times.shape[1] > 1 else np.zeros_like(times)
