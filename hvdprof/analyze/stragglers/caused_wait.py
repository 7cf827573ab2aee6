"""What each rank made the others wait, from the arrivals of all ranks at one point of a step."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.causes.ceilings import costs_of_ranks
from hvdprof.analyze.steps.launches import LaunchKey
from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.model.tables.waiting_tables import BLAME

UNDECIDED = -1


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waiting for the last rank; [steps, ranks] in ns, ``last`` [steps] as column or UNDECIDED."""

    waited: Times
    counterfactual: Times
    fair_share: Times
    last: NDArray[np.int64]


def waiting(arrived: Times, u_ns: Times) -> Waiting:
    """Both measures of blame for every step.

    ``counterfactual`` of the last rank is the time from the arrival before it to its own: what is
    saved if it alone is on time. ``fair_share`` splits every gap between two arrivals, in which j
    ranks wait, evenly among the ranks still missing (the Shapley value of that cost), so it sums to
    all waiting. A step has a last rank only where its gap is at least the sum of both clocks' u.

    Args:
        arrived: [steps, ranks] When each rank arrived, ns on one clock.
        u_ns: [ranks] How far each clock may be off.
    """
    num_steps, num_ranks = arrived.shape
    order = np.argsort(arrived, axis=1, kind="stable")
    ordered = np.take_along_axis(arrived, order, axis=1)
    last_arrival = ordered[:, -1:]
    counterfactual = np.zeros_like(arrived)
    fair_share = np.zeros_like(arrived)
    last = np.full(num_steps, 0 if num_ranks == 1 else UNDECIDED, dtype=np.int64)
    if num_ranks > 1:
        gaps = np.diff(ordered, axis=1)
        waiting_ranks = np.arange(1, num_ranks)
        owed = np.cumsum(gaps * waiting_ranks / (num_ranks - waiting_ranks), axis=1)
        np.put_along_axis(fair_share, order[:, 1:], owed, axis=1)
        np.put_along_axis(counterfactual, order[:, -1:], gaps[:, -1:], axis=1)
        unsure = u_ns[order[:, -1]] + u_ns[order[:, -2]]
        decided = (gaps[:, -1] > 0) & (gaps[:, -1] >= unsure)
        last[decided] = order[decided, -1]
    return Waiting(last_arrival - arrived, counterfactual, fair_share, last)


def blame(work: StepWork, u_ns: Times, key: LaunchKey) -> pd.DataFrame:
    """BLAME of one launch; ``u_ns`` [ranks] is how far each clock may be off."""
    found = waiting(work.arrived, u_ns)
    step_ns = float(work.step_times.mean())
    num_ranks = len(work.ranks)
    costs = costs_of_ranks(work)
    return BLAME.frame(
        {
            "pass_id": [key[0]] * num_ranks,
            "segment": [key[1]] * num_ranks,
            "rank": work.ranks,
            "num_steps": [len(work.steps)] * num_ranks,
            "share_last": [float((found.last == place).mean()) for place in range(num_ranks)],
            "share_undecided": [float((found.last == UNDECIDED).mean())] * num_ranks,
            "waited_ns": found.waited.mean(axis=0),
            "counterfactual_ns": found.counterfactual.mean(axis=0),
            "fair_share_ns": found.fair_share.mean(axis=0),
            "cost_ns": costs,
            "cost_share": costs / step_ns,
        }
    )
