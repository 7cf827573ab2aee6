"""Replay of the steps of a launch with one change: the resulting step time.

The ranks are coupled at the points of a step (``sync_points``), of which Horovod and DDP have one:
no rank is released before the last rank has arrived. With ``E`` the end of a step, ``before`` and
``after`` a rank's own time on either side of the wait, and ``tail`` the time from the last arrival
to its release:

    A_k     = max over ranks of (E_(k-1) + before_k)
    E_k     = A_k + tail_k + after_k
    T_k     = max over ranks of E_k  -  max over ranks of E_(k-1)

With several points per step ``k`` counts the points, ``E`` is the release but at the last point,
and the time of a step is the sum over its points.

Without a change it returns the measured times. With ``tail`` 0 it is the run time on an ideal
network of the POP methodology (transfer and serialization efficiency, Wagner et al., "A
Structured Approach to Performance Analysis", 2019). A change also affects later steps:
a rank that arrives earlier also starts the next step earlier.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.steps.step_work import StepWork, Times, medians_of_others
from hvdprof.analyze.steps.sync_points import SyncPoints


@dataclass(frozen=True, slots=True)
class Change:
    """Replacements of the times of ``StepWork.points`` in a replay, ns; None keeps them."""

    before: Times | None = None
    tail: Times | None = None
    after: Times | None = None


def replay(work: StepWork, change: Change | None = None) -> NDArray[np.float64]:
    """[steps] The step times of the job, ns, with a change or as measured."""
    change = change or Change()
    points = work.points
    before = points.before if change.before is None else change.before
    tail = points.tail if change.tail is None else change.tail
    after = points.after if change.after is None else change.after
    if not len(work.steps):
        return np.empty(0)
    # A_k - A_(k-1) = max over ranks of (rest_(k-1) + before_k): all points can be computed at once.
    rest, begun = _rest_and_begun(points, tail, after)
    times: NDArray[np.float64] = (begun + before).max(axis=1) + rest.max(axis=1) - begun.max(axis=1)
    return points.of_steps(times)


def _rest_and_begun(points: SyncPoints, tail: Times, after: Times) -> tuple[Times, Times]:
    """Time after the last arrival at a point, and start of each rank after the one before."""
    rest = tail + after
    begun = np.concatenate([points.begin[:1], rest[:-1]])
    is_first = ~points.follows
    is_first[0] = True
    begun[is_first] = points.begin[is_first]
    return rest, begun


def on_ideal_network(work: StepWork) -> NDArray[np.float64]:
    """[steps] Step times, ns, with reduced gradients available as soon as the last rank arrives."""
    return replay(work, Change(tail=np.zeros_like(work.points.tail)))


def with_rank_on_time(work: StepWork, place: int) -> NDArray[np.float64]:
    """[steps] Step times, ns, if one rank never takes longer than the median of the others.

    Args:
        work: The measured steps.
        place: The column of the rank in ``work.ranks``; of one rank alone nothing is changed.
    """
    if len(work.ranks) < 2:
        return replay(work)
    points = work.points
    before, after = (_as_others(times, place) for times in (points.before, points.after))
    return replay(work, Change(before=before, after=after))


def _as_others(times: Times, place: int) -> Times:
    changed = times.copy()
    changed[:, place] = np.minimum(times[:, place], medians_of_others(times)[:, place])
    return changed
