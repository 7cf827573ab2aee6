"""Sums over the rows of a standalone timeline, which come in pieces.

Tested in ``tests/analyze/files/test_timeline_verdict.py``.
"""

from collections import Counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.running_summaries import RunningUnion, ValueCounts

USE_COLUMNS = (
    "warmup",
    "fusion_id",
    "size_bytes",
    "negotiation_start_ns",
    "negotiation_ns",
    "last_rank",
    "last_after_ns",
)
EXECUTION_COLUMNS = ("collective", "warmup", "start_ns", "dur_ns")


class Span:
    """From the earliest start to the latest end."""

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

    Attributes:
        num_uses: Uses of tensors.
        num_warmup_uses: Those that are warm-up.
        num_executed: Those after warm-up that were executed.
        num_told: Of these, those of which the file says when each rank was ready.
        payload_bytes: Bytes of all uses whose size is known, ``None`` where none is.
        waits: Lengths of negotiations without warm-up.
        by_collective: Executions by collective.
        lengths: Lengths of executions without warm-up.
        executing: When anything was executed.
        executing_steady: When anything was executed that is no warm-up.
        steady: From the first to the last of these.
        num_steady: Executions without warm-up that ended.
        waiting: When a tensor waited for the last rank alone, without warm-up.
        waiting_for: The same by rank.
        num_waited: Executions that did.
    """

    def __init__(self) -> None:
        self.num_uses, self.num_warmup_uses = 0, 0
        self.num_executed, self.num_told = 0, 0
        self.payload_bytes: int | None = None
        self.waits, self.lengths = ValueCounts(), ValueCounts()
        self.by_collective: Counter[str] = Counter()
        self.executing, self.executing_steady = RunningUnion(), RunningUnion()
        self.steady = Span()
        self.num_steady, self.num_waited = 0, 0
        self.waiting = RunningUnion()
        self.waiting_for: dict[int, RunningUnion] = {}

    def add_uses(self, uses: pd.DataFrame) -> None:
        """Take rows of TENSOR_USES, of which USE_COLUMNS are needed."""
        self.num_uses += len(uses)
        self.num_warmup_uses += int(uses["warmup"].sum())
        known = uses["size_bytes"].dropna()
        if len(known):
            self.payload_bytes = (self.payload_bytes or 0) + int(known.sum())
        steady = uses[~uses["warmup"]]
        self.waits.add(_whole(steady["negotiation_ns"].dropna()))
        executed = steady[steady["fusion_id"] >= 0]
        self.num_executed += len(executed)
        self.num_told += int(executed["last_after_ns"].notna().sum())
        self._add_waiting(executed[executed["last_rank"].notna()])

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
        steady = ended[~ended["warmup"]]
        starts, ends = _intervals(steady)
        self.num_steady += len(steady)
        self.lengths.add(ends - starts)
        self.executing_steady.add(starts, ends)
        self.steady.add(starts, ends)

    def _add_waiting(self, waited: pd.DataFrame) -> None:
        self.num_waited += int(waited["fusion_id"].nunique())
        ends = _whole(waited["negotiation_start_ns"] + waited["negotiation_ns"])
        starts = ends - _whole(waited["last_after_ns"])
        ranks = _whole(waited["last_rank"])
        # Tensors wait at the same time: unions, never sums.
        self.waiting.add(starts, ends)
        for rank in np.unique(ranks).tolist():
            mine = ranks == rank
            self.waiting_for.setdefault(rank, RunningUnion()).add(starts[mine], ends[mine])


def sums_of(uses: pd.DataFrame, executions: pd.DataFrame) -> TimelineSums:
    """The sums over rows of one file that are there as a whole."""
    sums = TimelineSums()
    sums.add_uses(uses)
    sums.add_executions(executions)
    return sums


def _intervals(rows: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = _whole(rows["start_ns"])
    return starts, starts + _whole(rows["dur_ns"])


def _whole(values: pd.Series) -> NDArray[np.int64]:
    return values.to_numpy(dtype=np.int64)
