"""What each rank costs in each phase, and how much later than the others it is there."""

import numpy as np
import pandas as pd

from hvdprof.analyze.ranks.account import Account, account
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.steps.step_work import Times, medians_of_others
from hvdprof.model.arrays import Int64s
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.tables.waiting_tables import RANK_COSTS


def rank_costs(times: RankTimes, key: LaunchKey) -> pd.DataFrame:
    """RANK_COSTS of one launch; empty of one rank.

    Args:
        times: The own times.
        key: The launch.
    """
    if len(times.ranks) < 2:
        return RANK_COSTS.empty()
    parts = account(times)
    own = times.of_steps(times.own_ns)
    later = np.stack([medians_of_others(of_phase) for of_phase in np.moveaxis(own, 2, 0)], axis=2)
    means = {
        "own_ns": own.mean(axis=0),
        "later_ns": (own - later).mean(axis=0),
        "shared_ns": np.broadcast_to(
            times.of_steps(parts.shared_ns).mean(axis=0), own.shape[1:]
        ).copy(),
        "cost_ns": times.of_steps(parts.costs_ns).mean(axis=0),
        "saved_if_removed_ns": saved_if_removed(times, parts).mean(axis=0),
    }
    num_ranks, num_phases = own.shape[1:]
    return RANK_COSTS.frame(
        {
            "pass_id": [key[0]] * num_ranks * num_phases,
            "segment": [key[1]] * num_ranks * num_phases,
            "rank": np.repeat(times.ranks, num_phases),
            "phase": list(times.phases) * num_ranks,
            **{name: mean.ravel() for name, mean in means.items()},
            "later_share": means["later_ns"].ravel() / times.step_ns,
            "cost_share": means["cost_ns"].ravel() / times.step_ns,
        }
    )


def costs_of_ranks(table: pd.DataFrame, ranks: Int64s) -> Times:
    """[ranks] What each rank costs in all phases, ns per step; NaN of ranks without an account.

    Never negative: of a rank that is faster, the account can hold a part below 0, since the end of
    its transfer belongs to no rank.

    Args:
        table: RANK_COSTS of one launch.
        ranks: Its ranks.
    """
    by_rank = table.groupby("rank")["cost_ns"].sum().reindex(ranks)
    return np.asarray(np.maximum(by_rank.to_numpy(dtype=np.float64), 0.0))


def saved_if_removed(times: RankTimes, parts: Account) -> Times:
    """[steps, ranks, phases] What a step loses without the excess of one rank in one phase, ns."""
    late = (times.own_ns.sum(axis=2) + times.transfer_ns) - parts.shared_ns.sum(axis=1)[:, None]
    largest = late.max(axis=1, keepdims=True)
    second = np.partition(late, -2, axis=1)[:, -2:-1]
    of_others = np.where(late == largest, second, largest)
    without = late[..., None] - np.maximum(parts.excess_ns, 0.0)
    saved = largest[..., None] - np.maximum(without, of_others[..., None])
    return times.of_steps(np.asarray(saved.clip(0)))
