"""Which rank rounds of collectives wait for, what that costs, and whether it is chance.

A round is a step; where no steps are known, collectives that ranks submit at once.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.ranks.chances import MOST_BLOCKS, MOST_RANKS, chances_of_costs
from hvdprof.analyze.stats.distributions import binomial_tail
from hvdprof.analyze.stats.intervals import Reach
from hvdprof.analyze.stats.uncertainty import Interval, autocorrelation_time, mean_of
from hvdprof.model.arrays import Int64s

_MOST_SIDES = 8
"""Ranks with the longest waits, among which a change is looked for."""

LEAST_ROUNDS = 4
LARGEST_CHANCE = 0.02
"""Accepted probability that equal ranks give one of them as much as a rank that is named."""

LEAST_EXPLAINED = 0.8
"""Share of all waits from which others do not matter, also on either side of a change."""

LEAST_ROUNDS_OF_CHANGE = 10


@dataclass(frozen=True, slots=True)
class LastRank:
    """One rank that rounds wait for.

    Attributes:
        rank: The rank.
        num_rounds: Rounds that wait for it the longest.
        gap_ns: Median of the waits in these rounds.
        total_ns: All of its waits.
        share: Share of all waits for the last rank that it causes.
        first_round: The first of these rounds.
        last_round: The last of these rounds.
    """

    rank: int
    num_rounds: int
    gap_ns: float
    total_ns: int
    share: float
    first_round: int
    last_round: int


@dataclass(frozen=True, slots=True)
class Change:
    """The rounds wait for one rank before a round, and for another from it on."""

    rank_before: int
    rank_after: int
    first_round_after: int


class LastRanks:
    """Waits for the last rank by round and rank; pieces of a table come in their order."""

    def __init__(self) -> None:
        self._reach: dict[int, Reach] = {}
        self._rounds: list[Int64s] = []
        self._ranks: list[Int64s] = []
        self._waits: list[Int64s] = []

    def add(self, rounds: Int64s, ranks: Int64s, starts: Int64s, ends: Int64s) -> None:
        """Take the next waits of tensors; those of one rank that overlap count once."""
        for rank in np.unique(ranks).tolist():
            mine = ranks == rank
            new = self._reach.setdefault(rank, Reach()).added(starts[mine], ends[mine])
            of_round, place = np.unique(rounds[mine], return_inverse=True)
            self._rounds.append(of_round)
            self._ranks.append(np.full(len(of_round), rank, dtype=np.int64))
            self._waits.append(np.bincount(place, weights=new).astype(np.int64))

    def of_rounds(self, chosen: Int64s | None = None) -> tuple[LastRank, ...]:
        """The ranks that some of the rounds wait for, the longest wait first.

        Args:
            chosen: The rounds; all that wait where not given.
        """
        waits = self._by_round(chosen)
        if waits.empty:
            return ()
        total = int(waits["wait_ns"].sum())
        latest = waits.sort_values(["round", "wait_ns", "rank"], ascending=[True, False, True])
        latest = latest.drop_duplicates("round")
        sums = waits.groupby("rank")["wait_ns"].sum().sort_values(ascending=False, kind="stable")
        found = []
        for rank, wait in sums.items():
            mine = latest[latest["rank"] == rank]
            if len(mine):
                found.append(
                    LastRank(
                        rank=int(str(rank)),
                        num_rounds=len(mine),
                        gap_ns=float(mine["wait_ns"].median()),
                        total_ns=int(wait),
                        share=float(wait) / total,
                        first_round=int(mine["round"].min()),
                        last_round=int(mine["round"].max()),
                    )
                )
        return tuple(found)

    def chances(
        self, num_ranks: int, chosen: Int64s | None = None, least_ns: float = 0.0
    ) -> dict[int, float]:
        """By rank the chance that equal ranks give any of them as much; the ranks change places.

        The smaller one of two tests, doubled. In the first, short waits are left out: who is last
        in them says nothing of the long ones. In the second, long waits count as three usual ones,
        so that a few of them do not hide who is last in most rounds.

        Args:
            num_ranks: Ranks among which one is last.
            chosen: As for ``of_rounds``.
            least_ns: What a rank must cause in all for the second test to count.
        """
        waits = self._by_round(chosen)
        if waits.empty:
            return {}
        by_round = waits.groupby("round")["wait_ns"].sum()
        long = by_round.index[(by_round >= by_round.mean() / 2).to_numpy()]
        found = _chances(waits[waits["round"].isin(long)], num_ranks)
        usual = waits.assign(wait_ns=waits["wait_ns"].clip(upper=3 * by_round.median()))
        totals = usual.groupby("rank")["wait_ns"].sum()
        for rank, chance in _chances(usual, num_ranks).items():
            if totals[rank] >= least_ns:
                found[rank] = min(found.get(rank, 1.0), chance)
        return {rank: min(1.0, 2 * chance) for rank, chance in found.items()}

    def mean_wait(self, rank: int, chosen: Int64s | None = None) -> Interval:
        """The mean wait for a rank over some rounds, ns, with its 95 % interval."""
        own = self._by_round(chosen)
        chosen = np.unique(own["round"]) if chosen is None else chosen
        own = own[own["rank"] == rank]
        waits = np.zeros(len(chosen))
        waits[np.searchsorted(chosen, own["round"])] = own["wait_ns"]
        return mean_of(waits).interval()

    def change(self, num_ranks: int, chosen: Int64s) -> Change | None:
        """Where the rank that the rounds wait for is replaced by another one, once.

        Either rank causes most of the waits on its side, and is last there beyond chance, although
        the round of the change is chosen of many.

        Args:
            num_ranks: Ranks among which one is last.
            chosen: The rounds, ascending.
        """
        waits = self._by_round(chosen)
        num = len(chosen)
        if waits.empty or num < 2 * LEAST_ROUNDS_OF_CHANGE:
            return None
        totals = waits.groupby("rank")["wait_ns"].sum().sort_values(ascending=False)
        ranks = np.asarray(totals.index[:_MOST_SIDES], dtype=np.int64)
        place = np.searchsorted(chosen, waits["round"].to_numpy(np.int64))
        nanoseconds = waits["wait_ns"].to_numpy(np.float64)
        of_rank = waits["rank"].to_numpy(np.int64)
        columns = [
            np.bincount(place[of_rank == rank], nanoseconds[of_rank == rank], num) for rank in ranks
        ]
        before = np.cumsum(np.stack(columns, axis=1), axis=0, dtype=np.float64)
        whole = np.cumsum(np.bincount(place, nanoseconds, num), dtype=np.float64)
        split = np.arange(LEAST_ROUNDS_OF_CHANGE, num - LEAST_ROUNDS_OF_CHANGE + 1)
        left = _shares(before[split - 1], whole[split - 1])
        right = _shares(before[-1] - before[split - 1], whole[-1] - whole[split - 1])
        best = int(np.minimum(left.max(axis=1), right.max(axis=1)).argmax())
        first, second = int(left[best].argmax()), int(right[best].argmax())
        if first == second or min(left[best, first], right[best, second]) < LEAST_EXPLAINED:
            return None
        sides = (ranks[first], chosen[: split[best]]), (ranks[second], chosen[split[best] :])
        for rank, rounds in sides:
            found = self.of_rounds(rounds)
            total, number = sum(one.num_rounds for one in found), found[0].num_rounds
            if found[0].rank != rank or not is_beyond_chance(
                number, total, num_ranks, LARGEST_CHANCE / num
            ):
                return None
        return Change(int(ranks[first]), int(ranks[second]), int(chosen[split[best]]))

    def _by_round(self, chosen: Int64s | None) -> pd.DataFrame:
        nothing = np.empty(0, dtype=np.int64)
        rows = pd.DataFrame(
            {
                "round": np.concatenate([nothing, *self._rounds]),
                "rank": np.concatenate([nothing, *self._ranks]),
                "wait_ns": np.concatenate([nothing, *self._waits]),
            }
        )
        if chosen is not None:
            rows = rows[rows["round"].isin(chosen)]
        summed = rows.groupby(["round", "rank"])["wait_ns"].sum().reset_index()
        return summed[summed["wait_ns"] > 0]


def _shares(waits: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(waits / np.maximum(whole, 1)[:, None])


def _chances(waits: pd.DataFrame, num_ranks: int) -> dict[int, float]:
    """By rank; rounds change together, twice as many as usually have the same last rank."""
    table = waits.pivot_table("wait_ns", "round", "rank", "sum")
    sums = table.sum().sort_values(ascending=False, kind="stable")
    costs = table.fillna(0)[sums.index[:MOST_RANKS]].to_numpy(np.float64)
    others = min(num_ranks, MOST_RANKS) - costs.shape[1]
    costs = np.pad(costs, ((0, 0), (0, max(others, 0))))
    is_last = costs.argmax(axis=1)[:, None] == np.arange(min(num_ranks, _MOST_SIDES))
    alike = max(autocorrelation_time(of_rank) for of_rank in is_last.T.astype(np.float64))
    length = max(int(np.ceil(2 * alike)) if alike > 1.2 else 1, -(-len(costs) // MOST_BLOCKS))
    found = chances_of_costs([costs], length).tolist()
    return {int(str(rank)): float(one) for rank, one in zip(sums.index, found, strict=False)}


def is_beyond_chance(
    number: int, total: int, num_ranks: int, largest_chance: float = LARGEST_CHANCE
) -> bool:
    """Whether a rank is last too often for chance, in 4 rounds or more, where only that is known.

    The chance is that of a binomial distribution, times the ranks that it may be (Bonferroni).

    Args:
        number: Rounds in which this rank is last.
        total: All rounds.
        num_ranks: Ranks among which one is last.
        largest_chance: Of one of them being last so often, were the last one drawn by lot.
    """
    counts = np.asarray([number], dtype=np.int64)
    chance = num_ranks * float(binomial_tail(counts, total, 1 / num_ranks)[0])
    return number >= LEAST_ROUNDS and chance <= largest_chance
