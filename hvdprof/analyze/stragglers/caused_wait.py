"""Wait that each rank causes, from the arrivals of all ranks at one point of a step."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.steps.replay import costs_of_ranks
from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT

UNDECIDED = -1


@dataclass(frozen=True, slots=True)
class StepWaits:
    """Waits for the last rank, [steps, ranks] in ns; ``last`` [steps] is a column or UNDECIDED.

    Of steps with several synchronizations, the rows are those.
    """

    waited: Times
    wait_as_last: Times
    caused_wait: Times
    last: NDArray[np.int64]


def step_waits(arrived: Times, u_ns: Times, submitted: Times | None = None) -> StepWaits:
    """Wait as last rank and wait caused (Shapley) of every synchronization.

    ``wait_as_last`` of the last rank is the gap between the second-last arrival and its own: the
    saving if this rank alone is on time. ``caused_wait`` splits every gap between two arrivals, in
    which j ranks wait, equally among the ranks still missing (the Shapley value of that cost), so
    it sums to all waiting. A step has a last rank only if its gap is at least the sum of the two
    clock errors.

    A collective that was submitted before the wait delays others until its submission alone, and
    only those that wait already.

    Args:
        arrived: [steps, ranks] Arrival of each rank, ns on one clock.
        u_ns: [ranks] Clock error of each rank.
        submitted: [steps, ranks] Submission of each rank, at its arrival or before; at its arrival
            where not given.
    """
    num_steps, num_ranks = arrived.shape
    submitted = arrived if submitted is None else submitted
    order = np.argsort(submitted, axis=1, kind="stable")
    ordered = np.take_along_axis(submitted, order, axis=1)
    last_arrival = ordered[:, -1:]
    wait_as_last = np.zeros_like(arrived)
    last = np.full(num_steps, 0 if num_ranks == 1 else UNDECIDED, dtype=np.int64)
    caused_wait = np.zeros_like(arrived)
    if num_ranks > 1:
        caused_wait = _caused(arrived, submitted)
        # No rank waits before the first one has arrived.
        since = np.maximum(ordered[:, -2], arrived.min(axis=1))
        gap = np.maximum(ordered[:, -1] - since, 0.0)
        np.put_along_axis(wait_as_last, order[:, -1:], gap[:, None], axis=1)
        unsure = u_ns[order[:, -1]] + u_ns[order[:, -2]]
        decided = (gap > 0) & (gap >= unsure)
        last[decided] = order[decided, -1]
    waited = np.maximum(last_arrival - arrived, 0.0)
    return StepWaits(waited, wait_as_last, caused_wait, last)


def _caused(arrived: Times, submitted: Times) -> Times:
    """Every interval between two events, split among the ranks that have not submitted."""
    num_ranks = arrived.shape[1]
    events = np.concatenate([submitted, arrived], axis=1)
    order = np.argsort(events, axis=1, kind="stable")
    gaps = np.diff(np.take_along_axis(events, order, axis=1), axis=1)
    is_arrival = order >= num_ranks
    waiting = np.cumsum(is_arrival, axis=1)[:, :-1]
    missing = num_ranks - np.cumsum(~is_arrival, axis=1)[:, :-1]
    owed = np.zeros(events.shape)
    rate = np.where(missing > 0, waiting / np.maximum(missing, 1), 0.0)
    np.cumsum(gaps * rate, axis=1, out=owed[:, 1:])
    by_event = np.empty_like(owed)
    np.put_along_axis(by_event, order, owed, axis=1)
    return by_event[:, :num_ranks]


def last_of_steps(waits: StepWaits, per_step: int) -> NDArray[np.int64]:
    """[steps] The rank (column) with the longest wait as last rank of a step, or UNDECIDED.

    Args:
        waits: Of the points of the steps.
        per_step: Points of each step.
    """
    if per_step == 1:
        return waits.last
    places = np.arange(waits.waited.shape[1])
    decided = np.where(waits.last[:, None] == places, waits.wait_as_last, 0.0)
    of_steps = decided.reshape(-1, per_step, len(places)).sum(axis=1)
    return np.where(of_steps.any(axis=1), of_steps.argmax(axis=1), UNDECIDED)


def caused_wait(work: StepWork, u_ns: Times, key: LaunchKey) -> pd.DataFrame:
    """CAUSED_WAIT of one launch; ``u_ns`` [ranks] is the clock error of each rank."""
    points = work.points
    waits = step_waits(points.arrived, u_ns, points.submitted)
    last = last_of_steps(waits, points.per_step)
    step_ns = float(work.step_times.mean())
    num_ranks = len(work.ranks)
    costs = costs_of_ranks(work)
    return CAUSED_WAIT.frame(
        {
            "pass_id": [key[0]] * num_ranks,
            "segment": [key[1]] * num_ranks,
            "rank": work.ranks,
            "num_steps": [len(work.steps)] * num_ranks,
            "share_last": [float((last == place).mean()) for place in range(num_ranks)],
            "share_undecided": [float((last == UNDECIDED).mean())] * num_ranks,
            "waited_ns": points.of_steps(waits.waited).mean(axis=0),
            "wait_as_last_ns": points.of_steps(waits.wait_as_last).mean(axis=0),
            "caused_wait_ns": points.of_steps(waits.caused_wait).mean(axis=0),
            "cost_ns": costs,
            "cost_share": costs / step_ns,
        }
    )
