"""NCCL's calls of rank 0 put beside Horovod's fused executions: by order, operation and bytes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from hvdprof.model.nccl_call_tables import NCCL_JOINED_CALLS

_OPERATIONS = {
    "ALLREDUCE": ("AllReduce", "ReduceScatter"),
    "ADASUM": ("ReduceScatter", "AllReduce"),
    "BROADCAST": ("Broadcast", "Bcast"),
    "ALLGATHER": ("AllGather", "Broadcast"),
    "REDUCESCATTER": ("ReduceScatter",),
    "ALLTOALL": ("AlltoAll", "AllToAll"),
}
"""What Horovod's collectives become in NCCL; a hierarchical allreduce begins with ReduceScatter."""

_PADDING = 64
"""Bytes by which Horovod may round up a tensor within the fusion buffer."""

_MOST = 10_000
"""Calls and executions that are aligned; the work grows with the product of their numbers."""


@dataclass(frozen=True, slots=True)
class CallJoin:
    """Joined pairs as ``NCCL_JOINED_CALLS``, and how many of each side were left alone."""

    pairs: pd.DataFrame
    num_unjoined_calls: int
    num_unjoined_executions: int
    num_ambiguous: int


def join_calls_to_executions(calls: pd.DataFrame, events: pd.DataFrame) -> CallJoin:
    """Join collective calls of one rank to fused executions of its Horovod timeline.

    Both are sequences in time order, and either may lack a beginning, an end or pieces between.
    They are aligned by their longest common subsequence of operation and bytes (where several
    tensors are fused, the bytes may be padded). A pair is joined only where every longest
    alignment has it; all others are ambiguous and stay unjoined. Element types are not compared:
    a timeline does not tell them. The first 10,000 of each side are aligned.

    Args:
        calls: Rows of ``NCCL_CALLS``; rank 0 is taken, or all where no rank is known.
        events: Rows of ``EVENTS`` of one pass; its operation rows with a fusion id are taken.

    Returns:
        The pairs by row number in ``calls`` and by ``fusion_id``, and the counts left alone.
    """
    mine = calls[calls["rank"] == 0] if (calls["rank"] == 0).any() else calls
    executions = _executions(events)
    levels = _levels(_Matches(mine[:_MOST], executions[:_MOST]))
    certain = [pairs[0] for pairs in levels if len(pairs) == 1]
    pairs = NCCL_JOINED_CALLS.frame(
        {
            "call": [int(mine.index[left]) for left, _ in certain],
            "fusion_id": [int(executions["fusion_id"].iloc[right]) for _, right in certain],
            "file": [str(mine["file"].iloc[left]) for left, _ in certain],
            "line": [int(mine["line"].iloc[left]) for left, _ in certain],
        }
    )
    return CallJoin(
        pairs=pairs,
        num_unjoined_calls=len(mine) - len(certain),
        num_unjoined_executions=len(executions) - len(certain),
        num_ambiguous=len(levels) - len(certain),
    )


def _executions(events: pd.DataFrame) -> pd.DataFrame:
    """One row for each fused execution in time order; bytes missing where any tensor's are."""
    rows = events[(events["phase"] == "operation") & (events["fusion_id"] >= 0)]
    grouped = rows.groupby("fusion_id", sort=False, observed=True)
    executions = grouped.agg(
        collective=("collective", "first"), start_ns=("start_ns", "min"), num=("fusion_id", "size")
    )
    executions["size_bytes"] = grouped["size_bytes"].agg(lambda sizes: sizes.sum(skipna=False))
    return executions.sort_values("start_ns", kind="stable").reset_index()


class _Matches:
    """Which executions a call may belong to, one row of the matrix at a time."""

    def __init__(self, calls: pd.DataFrame, executions: pd.DataFrame) -> None:
        number = executions["num"].to_numpy(dtype=np.int64)
        self._low = executions["size_bytes"].astype("Int64").fillna(-1).to_numpy(dtype=np.int64)
        self._high = self._low + np.where(number > 1, number * _PADDING, 0)
        collectives = [str(name) for name in executions["collective"]]
        self._wanted = {
            name: np.array([name in _OPERATIONS.get(one, ()) for one in collectives], dtype=bool)
            for name in {str(name) for name in calls["operation"]}
        }
        self._operations = [str(name) for name in calls["operation"]]
        self._bytes = calls["size_bytes"].astype("Int64").fillna(-2).to_numpy(dtype=np.int64)
        self.shape = len(calls), len(executions)

    def row(self, call: int) -> npt.NDArray[np.bool_]:
        """True for every execution of the operation and bytes of this call."""
        size = self._bytes[call]
        fits = (self._low <= size) & (size <= self._high) & (self._low >= 0)
        return np.asarray(fits & self._wanted[self._operations[call]])


def _levels(matches: _Matches) -> list[list[tuple[int, int]]]:
    """For the first, second ... pair of the longest alignments: up to two pairs it can be.

    A pair lies on a longest alignment where what fits before it, itself and what fits after it
    make up the whole length; it lies on all of them where it is alone at its place.
    """
    num_calls, num_executions = matches.shape
    after = _after(matches)
    best = int(_suffix_sums(after[0], num_executions)[0])
    levels: list[list[tuple[int, int]]] = [[] for _ in range(best)]
    before = np.zeros(num_executions + 1, dtype=np.int32)
    for call in range(num_calls if best else 0):
        match = matches.row(call)
        follows = _suffix_sums(after[call + 1], num_executions)[1:]
        on_path = np.flatnonzero(match & (before[:-1] + 1 + follows == best))
        for execution in on_path:
            pairs = levels[before[execution]]
            if len(pairs) < 2:
                pairs.append((call, int(execution)))
        longer = np.where(match, before[:-1] + 1, before[1:])
        before[1:] = np.maximum.accumulate(np.maximum(before[1:], longer))
    return levels


def _after(matches: _Matches) -> list[npt.NDArray[np.uint8]]:
    """Length of the longest alignment from each call on, as packed steps of one."""
    num_calls, num_executions = matches.shape
    lengths = np.zeros(num_executions + 1, dtype=np.int32)
    packed = [np.packbits(lengths[:-1] > lengths[1:])]
    for call in reversed(range(num_calls)):
        longer = np.where(matches.row(call), lengths[1:] + 1, lengths[:-1])
        grown = np.maximum(lengths[:-1], longer)
        lengths[:-1] = np.maximum.accumulate(grown[::-1])[::-1]
        packed.append(np.packbits(lengths[:-1] > lengths[1:]))
    return packed[::-1]


def _suffix_sums(packed: npt.NDArray[np.uint8], length: int) -> npt.NDArray[np.int32]:
    steps = np.unpackbits(packed, count=length).astype(np.int32)
    sums = np.zeros(length + 1, dtype=np.int32)
    sums[:-1] = np.cumsum(steps[::-1])[::-1]
    return sums
