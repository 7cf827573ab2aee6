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
    """Waits for the last rank, [steps, ranks] in ns; ``last`` [steps] is a column or UNDECIDED."""

    waited: Times
    wait_as_last: Times
    caused_wait: Times
    last: NDArray[np.int64]


def step_waits(arrived: Times, u_ns: Times) -> StepWaits:
    """Wait as last rank and wait caused (Shapley) of every step.

    ``wait_as_last`` of the last rank is the gap between the second-last arrival and its own: the
    saving if this rank alone is on time. ``caused_wait`` splits every gap between two arrivals, in
    which j ranks wait, equally among the ranks still missing (the Shapley value of that cost), so
    it sums to all waiting. A step has a last rank only if its gap is at least the sum of the two
    clock errors.

    Args:
        arrived: [steps, ranks] Arrival of each rank, ns on one clock.
        u_ns: [ranks] Clock error of each rank.
    """
    num_steps, num_ranks = arrived.shape
    order = np.argsort(arrived, axis=1, kind="stable")
    ordered = np.take_along_axis(arrived, order, axis=1)
    last_arrival = ordered[:, -1:]
    wait_as_last = np.zeros_like(arrived)
    caused_wait = np.zeros_like(arrived)
    last = np.full(num_steps, 0 if num_ranks == 1 else UNDECIDED, dtype=np.int64)
    if num_ranks > 1:
        gaps = np.diff(ordered, axis=1)
        waiting_ranks = np.arange(1, num_ranks)
        owed = np.cumsum(gaps * waiting_ranks / (num_ranks - waiting_ranks), axis=1)
        np.put_along_axis(caused_wait, order[:, 1:], owed, axis=1)
        np.put_along_axis(wait_as_last, order[:, -1:], gaps[:, -1:], axis=1)
        unsure = u_ns[order[:, -1]] + u_ns[order[:, -2]]
        decided = (gaps[:, -1] > 0) & (gaps[:, -1] >= unsure)
        last[decided] = order[decided, -1]
    return StepWaits(last_arrival - arrived, wait_as_last, caused_wait, last)


def caused_wait(work: StepWork, u_ns: Times, key: LaunchKey) -> pd.DataFrame:
    """CAUSED_WAIT of one launch; ``u_ns`` [ranks] is the clock error of each rank."""
    waits = step_waits(work.arrived, u_ns)
    step_ns = float(work.step_times.mean())
    num_ranks = len(work.ranks)
    costs = costs_of_ranks(work)
    return CAUSED_WAIT.frame(
        {
            "pass_id": [key[0]] * num_ranks,
            "segment": [key[1]] * num_ranks,
            "rank": work.ranks,
            "num_steps": [len(work.steps)] * num_ranks,
            "share_last": [float((waits.last == place).mean()) for place in range(num_ranks)],
            "share_undecided": [float((waits.last == UNDECIDED).mean())] * num_ranks,
            "waited_ns": waits.waited.mean(axis=0),
            "wait_as_last_ns": waits.wait_as_last.mean(axis=0),
            "caused_wait_ns": waits.caused_wait.mean(axis=0),
            "cost_ns": costs,
            "cost_share": costs / step_ns,
        }
    )
