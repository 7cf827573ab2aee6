"""Which rank each round of a timeline waits for, how long, and whether beyond chance.

A round is an inferred step, or an execution where no steps can be inferred.

Tested in ``tests/analyze/files/test_straggler_sentence.py``.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.distributions import binomial_tail
from hvdprof.analyze.stats.running_summaries import Reach

Int64s = NDArray[np.int64]
_MOST_RANKS = 8
"""Ranks with the longest waits, among which a change is looked for."""

LEAST_ROUNDS = 4
LARGEST_CHANCE = 0.02
"""Of the same rank being last so often, were the last rank drawn by lot."""


@dataclass(frozen=True, slots=True)
class LastRank:
    """One rank that rounds wait for.

    Attributes:
        rank: The rank.
        num_rounds: Rounds that wait for it the longest.
        wait_ns: Median of the waits in these rounds.
        longest_ns: The longest of them.
        share: Share of all waits for the last rank that it causes.
        first_round: The first of these rounds.
        last_round: The last of these rounds.
    """

    rank: int
    num_rounds: int
    wait_ns: float
    longest_ns: int
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
            chosen: The rounds; all where not given.
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
                        wait_ns=float(mine["wait_ns"].median()),
                        longest_ns=int(mine["wait_ns"].max()),
                        share=float(wait) / total,
                        first_round=int(mine["round"].min()),
                        last_round=int(mine["round"].max()),
                    )
                )
        return tuple(found)

    def change(self, chosen: Int64s, least_share: float, least_rounds: int) -> Change | None:
        """Where the rank that the rounds wait for is replaced by another one, once.

        Args:
            chosen: The rounds, in their order.
            least_share: Share of the waits on either side that its rank must cause.
            least_rounds: Rounds on either side.
        """
        waits = self._by_round(chosen)
        num = len(chosen)
        if waits.empty or num < 2 * least_rounds:
            return None
        totals = waits.groupby("rank")["wait_ns"].sum().sort_values(ascending=False)
        ranks = np.asarray(totals.index[:_MOST_RANKS], dtype=np.int64)
        place = np.searchsorted(chosen, waits["round"].to_numpy(np.int64))
        nanoseconds = waits["wait_ns"].to_numpy(np.float64)
        of_rank = waits["rank"].to_numpy(np.int64)
        columns = [
            np.bincount(place[of_rank == rank], nanoseconds[of_rank == rank], num) for rank in ranks
        ]
        before = np.cumsum(np.stack(columns, axis=1), axis=0, dtype=np.float64)
        whole = np.cumsum(np.bincount(place, nanoseconds, num), dtype=np.float64)
        split = np.arange(least_rounds, num - least_rounds + 1)
        left = _shares(before[split - 1], whole[split - 1])
        right = _shares(before[-1] - before[split - 1], whole[-1] - whole[split - 1])
        best = int(np.minimum(left.max(axis=1), right.max(axis=1)).argmax())
        first, second = int(left[best].argmax()), int(right[best].argmax())
        weakest = min(left[best, first], right[best, second])
        if first == second or weakest < least_share:
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


def is_beyond_chance(
    number: int, total: int, num_ranks: int, largest_chance: float = LARGEST_CHANCE
) -> bool:
    """Whether a rank is last too often for chance, in 4 rounds or more.

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
