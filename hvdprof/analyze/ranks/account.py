"""The exact account of a launch: what ranks share, what each adds and costs, what transfer takes.

From the last arrival at a synchronization to that at the next one a job takes the longest of the
ranks' transfer and own time. With ``shared`` the part that at least half of the ranks spend too,

    step = shared, by phase + costs, by rank and phase + transfer

The cost of a rank is its Shapley value in the game in which a set of ranks costs its largest excess
(the airport game: S. C. Littlechild and G. Owen, "A simple expression for the Shapley value in a
special case", Management Science 20, 1973).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.steps.step_work import Times, medians_of_others
from hvdprof.model.arrays import Bools, Int64s
from hvdprof.model.cell_key import LaunchKey
from hvdprof.model.tables.waiting_tables import RANK_COSTS


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a launch, ns.

    Attributes:
        shared_ns: [points, phases] What the ranks share.
        excess_ns: [points, ranks, phases] What a rank spends more, negative where it spends less.
        costs_ns: [points, ranks, phases] What its excess adds to the step.
        transfer_ns: [points] Transfer; all of it together is the time between last arrivals.
    """

    shared_ns: Times
    excess_ns: Times
    costs_ns: Times
    transfer_ns: Times


def account(times: RankTimes) -> Account:
    """The account of every point; its parts sum to the time between last arrivals, exactly."""
    own = np.concatenate([times.own_ns, times.transfer_ns[..., None]], axis=2)
    common = shared(own, times.per_step)
    excess = own - common[:, None, :]
    costs = costs_of(excess)
    return Account(
        shared_ns=common[:, :-1],
        excess_ns=excess[..., :-1],
        costs_ns=costs[..., :-1],
        transfer_ns=common[:, -1] + costs[..., -1].sum(axis=1),
    )


def shared(own: Times, per_step: int = 1, is_normal: Bools | None = None) -> Times:
    """[points, phases] The median over the ranks: what at least half of them spend.

    Of an even number of ranks, "as usual" counts as one more: the lower median of the ranks' own
    medians. The mean of the two middle ranks would hold half of the delay of one of two ranks. The
    phases are those of the medians, and sum to the median of the whole time.

    Args:
        own: [points, ranks, phases]
        per_step: Points of each step: what is usual differs by point.
        is_normal: [points, ranks] Which times count, all by default; a point without any is NaN.
    """
    num_points, num_ranks, _ = own.shape
    if num_ranks == 1 and is_normal is None:
        return own[:, 0]
    counted = np.ones(own.shape[:2], dtype=bool) if is_normal is None else is_normal
    times = np.where(counted[..., None], own, np.nan)
    usual = np.zeros_like(own[:, 0])
    for place in range(per_step if num_points else 0):
        usual[place::per_step] = _usual(times[place::per_step])
    common = _medians(times, counted, usual)
    of_phases = common.sum(axis=1)
    whole = _medians(times.sum(axis=2)[..., None], counted, usual.sum(axis=1)[:, None])[:, 0]
    scale = np.divide(whole, of_phases, out=np.ones_like(whole), where=of_phases > whole)
    # Ranks that are in different phases at a point share its time all the same.
    above = np.where(counted[..., None], own - common[:, None, :], 0.0)
    room = np.maximum(above, 0.0).sum(axis=1)
    of_room = room.sum(axis=1)
    missing = np.maximum(whole - of_phases, 0.0)
    part = np.divide(missing, of_room, out=np.zeros_like(whole), where=of_room > 0)
    return np.asarray(common * scale[:, None] + room * part[:, None])


def _usual(times: Times) -> Times:
    """[phases] The lower median of the ranks' medians of [points, ranks, phases], NaN left out."""
    known = ~np.isnan(times).all(axis=(0, 2))
    if not known.any():
        return np.zeros(times.shape[2])
    of_ranks = known_medians(times[:, known])
    return np.asarray(np.sort(of_ranks, axis=0)[(len(of_ranks) - 1) // 2])


def known_medians(times: Times) -> Times:
    """Medians over the first axis without NaN; 0 where all are NaN."""
    num = (~np.isnan(times)).sum(axis=0)
    if (num == len(times)).all():
        return np.asarray(np.median(times, axis=0))
    # NaN are sorted to the end.
    ordered = np.sort(times, axis=0)
    low, high = (
        np.take_along_axis(ordered, np.maximum(place, 0)[None], axis=0)[0]
        for place in ((num - 1) // 2, num // 2)
    )
    return np.asarray(np.where(num > 0, (low + high) / 2, 0.0))


def _medians(times: Times, counted: Bools, usual: Times) -> Times:
    """[points, phases] Of the ranks that count, and of ``usual`` where their number is even."""
    ordered = np.sort(times, axis=1)
    num = counted.sum(axis=1)
    rows = np.arange(len(ordered))
    high = ordered[rows, np.minimum(num // 2, times.shape[1] - 1)]
    low = ordered[rows, np.maximum(num - 1, 0) // 2]
    is_odd = (num % 2 == 1)[:, None]
    return np.asarray(np.where(is_odd, high, np.where(usual < low, low, np.minimum(usual, high))))


def costs_of(excess: Times) -> Times:
    """[points, ranks, phases] Cost of each rank's excess, in proportion over its phases.

    They sum to the largest excess of a rank, or 0 where none is positive.
    """
    total = excess.sum(axis=2)
    value = shapley_of_max(np.maximum(total, 0.0))
    share = np.divide(value, total, out=np.zeros_like(value), where=total > 0)
    return np.asarray(excess * share[..., None])


def shapley_of_max(times: Times) -> Times:
    """[points, ranks] Shapley values of the largest time, of times of at least 0.

    Every gap between two ranks in order is shared by those from the longer one on.
    """
    order = np.argsort(times, axis=1)
    ordered = np.take_along_axis(times, order, axis=1)
    gaps = np.diff(ordered, axis=1, prepend=0.0)
    num_ranks = times.shape[1]
    values = np.empty_like(times)
    parts = np.cumsum(gaps / (num_ranks - np.arange(num_ranks)), axis=1)
    np.put_along_axis(values, order, parts, axis=1)
    return values


def credit(total: Times) -> Times:
    """[points, ranks] Cost of each rank against the others taken as one: Shapley of two players.

    Of 32 ranks with jitter the airport game leaves a slow rank a small share of its delay.
    """
    times = np.maximum(total, 0.0)
    if times.shape[1] < 2:
        return times
    second, first = np.partition(times, -2, axis=1)[:, -2:].T
    rest = np.where(times == first[:, None], second[:, None], first[:, None])
    return np.asarray((times + first[:, None] - rest) / 2)


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
