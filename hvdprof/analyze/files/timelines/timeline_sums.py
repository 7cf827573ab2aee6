"""Sums over the rows of a standalone timeline, which come in pieces."""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.files.steady_steps import SteadySteps, steady_steps
from hvdprof.analyze.ranks.last_ranks import LastRanks
from hvdprof.analyze.stats.intervals import RunningUnion, ValueCounts
from hvdprof.model.arrays import is_missing

USE_COLUMNS = (
    "step",
    "collective",
    "warmup",
    "start_ns",
    "fusion_id",
    "size_bytes",
    "negotiation_start_ns",
    "negotiation_ns",
    "num_ticks",
    "last_rank",
    "last_after_ns",
)
EXECUTION_COLUMNS = ("collective", "warmup", "start_ns", "dur_ns", "size_bytes")


@dataclass(frozen=True, slots=True)
class Wait:
    """One negotiation: its length, its step (-1 outside steps), and its last rank if known."""

    length_ns: int
    step: int
    last_rank: int | None


class Span:
    """From the earliest start to the latest end, in ns or another unit."""

    def __init__(self) -> None:
        self.first_ns: int | None = None
        self.last_ns = 0

    @property
    def length_ns(self) -> int:
        """Its length; 0 where nothing came."""
        return 0 if self.first_ns is None else self.last_ns - self.first_ns

    def add(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Take the next piece."""
        if not len(starts):
            return
        first, last = int(starts.min()), int(ends.max())
        self.last_ns = last if self.first_ns is None else max(self.last_ns, last)
        self.first_ns = first if self.first_ns is None else min(self.first_ns, first)


class TimelineSums:
    """Sums over the rows of one timeline; pieces of a table come in their order.

    Steady is what is neither warm-up nor in the start-up of the job.

    Attributes:
        steps: The steady steps.
        size: Number of ranks; ``None`` where the file names none.
        num_uses: Uses of tensors.
        num_warmup_uses: Those that are warm-up.
        num_executed: Those after warm-up that were executed.
        num_told: Of these, those of which the file says when each rank was ready.
        payload_bytes: Bytes of all uses whose size is known, ``None`` where none is.
        all_waits: Lengths of all negotiations.
        waits: Lengths of steady negotiations.
        longest_wait: The longest of them; ``None`` without any.
        by_collective: Executions by collective.
        lengths: Lengths of steady executions.
        executing: When anything was executed.
        executing_steady: When anything steady was executed.
        negotiating: When any steady tensor was negotiated.
        executed: From the first to the last steady execution.
        steady: The same with the negotiations.
        steady_ids: Numbers of the steady executions.
        num_steady: Steady executions that ended.
        steady_bytes: Their payload; ``None`` where the size of one is unknown.
        first_waits: Waits of warm-up uses for the last rank, all in one round.
        waiting: When a steady tensor waited for the last rank alone.
        last_ranks: The same by rank and by round: a step, or an execution without steps.
    """

    def __init__(self, steps: SteadySteps, size: int | None) -> None:
        self.steps, self.size = steps, size
        self.num_uses, self.num_warmup_uses = 0, 0
        self.num_executed, self.num_told = 0, 0
        self.payload_bytes: int | None = None
        self.all_waits, self.waits, self.lengths = ValueCounts(), ValueCounts(), ValueCounts()
        self.longest_wait: Wait | None = None
        self.by_collective: Counter[str] = Counter()
        self.executing, self.executing_steady = RunningUnion(), RunningUnion()
        self.negotiating, self.waiting = RunningUnion(), RunningUnion()
        self.executed, self.steady = Span(), Span()
        self.steady_ids = Span()
        self.num_steady = 0
        self.steady_bytes: int | None = 0
        self.last_ranks, self.first_waits = LastRanks(), LastRanks()

    @property
    def steady_ns(self) -> int:
        """Length of the steady time, without long pauses between steps."""
        return self.steady.length_ns - self.steps.pause_ns

    def add_uses(self, uses: pd.DataFrame) -> None:
        """Take rows of TENSOR_USES, of which USE_COLUMNS are needed."""
        self.num_uses += len(uses)
        self.num_warmup_uses += int(uses["warmup"].sum())
        known = uses["size_bytes"].dropna()
        if len(known):
            self.payload_bytes = (self.payload_bytes or 0) + int(known.sum())
        is_warm = uses["warmup"]
        executed = uses[~is_warm & (uses["fusion_id"] >= 0)]
        self.num_executed += len(executed)
        self.num_told += int(executed["last_after_ns"].notna().sum())
        begin = uses["negotiation_start_ns"].fillna(uses["start_ns"])
        is_steady = ~is_warm & self._is_after_startup(begin)
        self.all_waits.add(_whole(uses["negotiation_ns"].dropna()))
        negotiated = uses[is_steady & uses["negotiation_ns"].notna()]
        starts = _whole(negotiated["negotiation_start_ns"])
        lengths = _whole(negotiated["negotiation_ns"])
        self.waits.add(lengths)
        self.negotiating.add(starts, starts + lengths)
        self._add_longest(negotiated, lengths)
        self.steady.add(starts, starts + lengths)
        ids = _whole(executed.loc[is_steady[executed.index], "fusion_id"])
        self.steady_ids.add(ids, ids)
        self._add_waiting(uses, is_steady)

    def _add_longest(self, negotiated: pd.DataFrame, lengths: NDArray[np.int64]) -> None:
        longest = int(lengths.max(initial=0))
        if longest <= (self.longest_wait.length_ns if self.longest_wait else 0):
            return
        of_longest = negotiated[lengths == longest]
        ranks = of_longest["last_rank"].dropna()
        rank = int(ranks.iloc[0]) if len(ranks) else None
        self.longest_wait = Wait(longest, int(of_longest["step"].iloc[0]), rank)

    def names_every_rank(self, rank_ticks: str) -> bool:
        """Whether the file says of every use after warm-up when each rank was ready.

        Args:
            rank_ticks: What TIMELINES says of it, which counts tensors of the response cache only.
                What it never keeps, such as Adasum, is ticked at every use.
        """
        if rank_ticks == "none":
            return 0 < self.num_executed == self.num_told
        return rank_ticks == "every use"

    def add_executions(self, executions: pd.DataFrame) -> None:
        """Take rows of EXECUTIONS, of which EXECUTION_COLUMNS are needed."""
        numbers = executions["collective"].astype(str).value_counts()
        self.by_collective.update({str(name): int(number) for name, number in numbers.items()})
        ended = executions[executions["dur_ns"].notna()]
        self.executing.add(*_intervals(ended))
        steady = ended[~ended["warmup"] & self._is_after_startup(ended["start_ns"])]
        starts, ends = _intervals(steady)
        self.num_steady += len(steady)
        self.lengths.add(ends - starts)
        self.executing_steady.add(starts, ends)
        self.executed.add(starts, ends)
        self.steady.add(starts, ends)
        sizes = steady["size_bytes"]
        if sizes.isna().any():
            self.steady_bytes = None
        elif self.steady_bytes is not None:
            self.steady_bytes += int(sizes.sum())

    def _is_after_startup(self, times_ns: pd.Series) -> pd.Series:
        if self.steps.from_ns is None:
            return pd.Series(data=True, index=times_ns.index)
        return (times_ns >= self.steps.from_ns).fillna(value=False)

    def _add_waiting(self, uses: pd.DataFrame, is_steady: pd.Series) -> None:
        waits = uses["last_rank"].notna() & uses["negotiation_ns"].notna()
        # Fewer ranks are a process set, which numbers them anew.
        waits &= uses["num_ticks"] == (self.size or 0)
        first = uses[waits & uses["warmup"]]
        once = np.zeros(len(first), dtype=np.int64)
        self.first_waits.add(once, _whole(first["last_rank"]), *_waits(first))
        waits &= uses["fusion_id"] >= 0
        self.waiting.add(*_waits(uses[waits & is_steady]))
        by_step = bool(len(self.steps.steady))
        if by_step:
            startup = uses["step"].between(0, self.steps.num_startup - 1)
            is_steady |= startup & (uses["collective"] != "BROADCAST")
        waited = uses[waits & is_steady]
        rounds = _whole(waited["step" if by_step else "fusion_id"])
        self.last_ranks.add(rounds, _whole(waited["last_rank"]), *_waits(waited))


def sums_of(
    uses: pd.DataFrame, executions: pd.DataFrame, inferred: pd.DataFrame, size: int | None
) -> TimelineSums:
    """The sums over rows of one file that are there as a whole."""
    sums = TimelineSums(steady_steps(inferred), size)
    sums.add_uses(uses)
    sums.add_executions(executions)
    return sums


def size_of(row: Mapping[Hashable, object]) -> int | None:
    """Number of ranks in a row of TIMELINES; ``None`` where the file names none."""
    return None if is_missing(row["np"]) else int(str(row["np"]))


def _waits(waited: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """From the ready mark before the last to the last."""
    ends = _whole(waited["negotiation_start_ns"] + waited["negotiation_ns"])
    return ends - _whole(waited["last_after_ns"]), ends


def _intervals(rows: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = _whole(rows["start_ns"])
    return starts, starts + _whole(rows["dur_ns"])


def _whole(values: pd.Series) -> NDArray[np.int64]:
    return values.to_numpy(dtype=np.int64)
