"""Replaying the steps of a launch with something changed: what the step time would have been.

The ranks are coupled at one point of a step: nobody is released before the last has arrived. With
``E`` the end of a step, ``before`` and ``after`` a rank's own time on either side of the waiting,
and ``tail`` what passes from the last arrival to its release:

    A_k     = max over ranks of (E_(k-1) + before_k)
    E_k     = A_k + tail_k + after_k
    T_k     = max over ranks of E_k  -  max over ranks of E_(k-1)

With nothing changed this gives back the measured times. With ``tail`` 0 it is the run time on an
ideal network of the POP methodology (transfer and serialization efficiency, Wagner et al., "A
Structured Approach to Performance Analysis", 2019). What is changed keeps its effect on later
steps: a rank that arrives earlier also begins the next step earlier.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.step_work import StepWork, Times


@dataclass(frozen=True, slots=True)
class Change:
    """What a replay has in place of the measured times [steps, ranks], ns; None keeps them."""

    before: Times | None = None
    tail: Times | None = None
    after: Times | None = None


def replay(work: StepWork, change: Change | None = None) -> NDArray[np.float64]:
    """[steps] The step times of the job, ns, with a change or as measured."""
    change = change or Change()
    before = work.before if change.before is None else change.before
    tail = work.tail if change.tail is None else change.tail
    after = work.after if change.after is None else change.after
    rest = tail + after
    if not len(work.steps):
        return np.empty(0)
    # A_k - A_(k-1) = max over ranks of (rest_(k-1) + before_k): no step has to wait for another.
    longest = rest.max(axis=1)
    begun = np.concatenate([work.begin[:1], rest[:-1]])
    is_first = ~work.follows
    is_first[0] = True
    begun[is_first] = work.begin[is_first]
    times: NDArray[np.float64] = (begun + before).max(axis=1) + longest - begun.max(axis=1)
    return times


def on_ideal_network(work: StepWork) -> NDArray[np.float64]:
    """[steps] Step times, ns, if reduced gradients were there as soon as the last rank arrives."""
    return replay(work, Change(tail=np.zeros_like(work.tail)))


def with_rank_on_time(work: StepWork, place: int) -> NDArray[np.float64]:
    """[steps] Step times, ns, if one rank never needed longer than the median of the others.

    Args:
        work: The measured steps.
        place: The column of the rank in ``work.ranks``.
    """
    if work.before.shape[1] < 2:
        return replay(work)
    return replay(
        work, Change(before=_as_others(work.before, place), after=_as_others(work.after, place))
    )


def _as_others(times: Times, place: int) -> Times:
    others = np.median(np.delete(times, place, axis=1), axis=1)
    changed = times.copy()
    changed[:, place] = np.minimum(changed[:, place], others)
    return changed
