"""NCCL calls of rank 0 joined to Horovod's fused executions, by order and kind, job by job."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from hvdprof.analyze.nccl_join.nccl_alignment import MOST_CELLS, Aligned
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.run import Run
from hvdprof.model.tables.nccl_call_tables import NCCL_JOINED_CALLS
from hvdprof.model.tables.timeline_tables import TENSOR_USES, TIMELINES

_OPERATIONS = {
    "ALLREDUCE": ("AllReduce", "ReduceScatter"),
    "ADASUM": ("ReduceScatter", "AllReduce"),
    "BROADCAST": ("Broadcast", "Bcast"),
    "ALLGATHER": ("AllGather", "Broadcast"),
    "REDUCESCATTER": ("ReduceScatter",),
    "ALLTOALL": ("AlltoAll", "AllToAll"),
}
"""NCCL operations of Horovod's collectives; a hierarchical allreduce starts with ReduceScatter."""

_TYPED = ("AllReduce", "ReduceScatter", "Reduce")
"""Horovod submits everything else as bytes (``ncclChar`` in its nccl_operations.cc)."""

_PADDING = 64
"""Largest padding of a tensor within the fusion buffer, bytes."""

_KIND = ["operation", "size_bytes", "dtype"]

_LEAST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class CallJoin:
    """Joined pairs as ``NCCL_JOINED_CALLS``, and the number of unjoined members of each side.

    ``num_aligned`` is the length of the longest alignment, joined and ambiguous pairs together;
    ``num_calls`` and ``num_executions`` are the lengths of both sequences.
    """

    pairs: pd.DataFrame
    num_calls: int
    num_executions: int
    num_aligned: int

    @property
    def num_unjoined_calls(self) -> int:
        """Calls of rank 0 without a certain execution."""
        return self.num_calls - len(self.pairs)

    @property
    def num_unjoined_executions(self) -> int:
        """Executions without a certain call."""
        return self.num_executions - len(self.pairs)

    @property
    def num_ambiguous(self) -> int:
        """Pairs that differ between the longest alignments."""
        return self.num_aligned - len(self.pairs)


class Pairing:
    """The collective calls of one rank and the fused executions of its Horovod timeline.

    Both are in time order, and either can lack pieces. They are aligned by their longest common
    subsequence of operation, bytes and, for reductions, element type (where several tensors are
    fused, the bytes can be padded). Above about 200,000 on both sides, the first are aligned.

    Args:
        calls: Rows of ``NCCL_CALLS``; those of the process that is rank 0 are taken, or all where
            no rank is known.
        events: Rows of ``EVENTS`` of one timeline; its operation rows with a fusion id are taken.
        uses: Rows of ``TENSOR_USES`` of the same timeline, for the types.
    """

    def __init__(
        self, calls: pd.DataFrame, events: pd.DataFrame, uses: pd.DataFrame | None = None
    ) -> None:
        self._calls = _of_rank_0(calls)
        self._executions = _executions(events, uses)
        self._passes = events["pass_id"]
        num_calls, num_executions = _most(len(self._calls), len(self._executions))
        kinds = self._calls[_KIND].astype({"operation": str, "dtype": str})[:num_calls]
        self._kinds = kinds.drop_duplicates()
        coded = kinds.groupby(_KIND, sort=False, dropna=False, observed=True).ngroup()
        executions = self._executions[:num_executions]
        self._fits = _Fits(self._kinds, executions)
        self._aligned = Aligned(coded.tolist(), num_executions, self._fits)

    @property
    def share(self) -> float:
        """Share of the shorter side that can be aligned in order, 0 to 1; 0 where it is empty."""
        shorter = min(len(self._calls), len(self._executions))
        return self._aligned.length / shorter if shorter else 0.0

    def join(self) -> CallJoin:
        """The pairs that every longest alignment contains; all others stay unjoined."""
        found = self._aligned.certain()
        calls = self._calls.iloc[found.left]
        pairs = NCCL_JOINED_CALLS.frame(
            {
                "call": calls.index.to_numpy(dtype=np.int64),
                "pass_id": [str(self._passes.iloc[0])] * len(calls) if len(calls) else [],
                "fusion_id": self._executions["fusion_id"].to_numpy()[found.right],
                "file": calls["file"].astype(str).to_numpy(),
                "line": calls["line"].to_numpy(),
            }
        )
        return CallJoin(pairs, len(self._calls), len(self._executions), found.length)


def _most(num_calls: int, num_executions: int) -> tuple[int, int]:
    """Aligned number of each side: both cut by the same share above ``MOST_CELLS``."""
    share = min(1.0, (MOST_CELLS / max(num_calls * num_executions, 1)) ** 0.5)
    return int(num_calls * share), int(num_executions * share)


def _of_rank_0(calls: pd.DataFrame) -> pd.DataFrame:
    """The calls of the process that has rank 0 in all its communicators.

    Communicators of a host have a rank 0 each, whose calls are not those of the job's rank 0.
    """
    ranks = calls.groupby(["host", "pid"], sort=False, observed=True)["rank"]
    highest = ranks.transform("max")
    first: pd.DataFrame = calls.loc[(highest == 0).fillna(False).to_numpy(dtype=bool)]
    if len(first):
        process = first.iloc[0]
        same = (first["host"] == process["host"]) & (first["pid"] == process["pid"])
        mine: npt.NDArray[np.bool_] = same.to_numpy(dtype=bool)
        return first.loc[mine]
    zero = (calls["rank"] == 0).fillna(False).to_numpy(dtype=bool)
    return calls.loc[zero] if zero.any() else calls


def _executions(events: pd.DataFrame, uses: pd.DataFrame | None) -> pd.DataFrame:
    """One row for each fused execution in time order; bytes missing where any tensor's are."""
    rows = events[(events["phase"] == "operation") & (events["fusion_id"] >= 0)]
    grouped = rows.groupby("fusion_id", sort=False, observed=True)
    executions = grouped.agg(
        collective=("collective", "first"), start_ns=("start_ns", "min"), num=("fusion_id", "size")
    )
    complete = grouped["size_bytes"].count() == executions["num"]
    executions["size_bytes"] = grouped["size_bytes"].sum().where(complete)
    executions["dtype"] = _types(uses).reindex(executions.index).fillna("")
    ordered: pd.DataFrame = executions.sort_values("start_ns", kind="stable").reset_index()
    return ordered


def _types(uses: pd.DataFrame | None) -> pd.Series:
    """The element type of each execution, empty where unknown or mixed."""
    if uses is None or uses.empty:
        return pd.Series([], index=pd.Index([], dtype=np.int64), dtype=str)
    typed = uses.loc[uses["fusion_id"] >= 0, ["fusion_id", "dtype"]].astype({"dtype": str})
    grouped = typed.groupby("fusion_id")["dtype"]
    first = grouped.first()
    return first.where(first == grouped.last(), "")


class _Fits:
    """For a kind of call, mask of the executions that it can belong to."""

    def __init__(self, kinds: pd.DataFrame, executions: pd.DataFrame) -> None:
        self._kinds = list(kinds.itertuples(index=False, name=None))
        number = executions["num"].to_numpy(dtype=np.int64)
        self._low = executions["size_bytes"].astype("Int64").fillna(-1).to_numpy(dtype=np.int64)
        self._high = self._low + np.where(number > 1, number * _PADDING, 0)
        self._of_collective = _places(executions["collective"])
        self._of_dtype = _places(executions["dtype"])

    def __call__(self, kind: int) -> npt.NDArray[np.bool_]:
        operation, size, dtype = self._kinds[kind]
        if pd.isna(size):
            return np.zeros(len(self._low), dtype=bool)
        fits = (self._low <= size) & (size <= self._high) & (self._low >= 0)
        collectives = [name for name, calls in _OPERATIONS.items() if operation in calls]
        fits &= _any_of(self._of_collective, collectives, len(fits))
        if operation in _TYPED:
            fits &= _any_of(self._of_dtype, [dtype, ""], len(fits))
        return np.asarray(fits, dtype=bool)


def _places(names: pd.Series) -> dict[str, npt.NDArray[np.bool_]]:
    """For each name: mask of its places."""
    codes, found = pd.factorize(names.astype(str))
    return {str(name): codes == code for code, name in enumerate(found)}


def _any_of(
    places: dict[str, npt.NDArray[np.bool_]], names: list[str], length: int
) -> npt.NDArray[np.bool_]:
    either = np.zeros(length, dtype=bool)
    for name in names:
        if name in places:
            either |= places[name]
    return either


@dataclass(frozen=True, slots=True)
class JobJoin:
    """Result for the calls of one job.

    ``fitting`` names the timelines whose executions fit them; ``join`` is ``None`` unless exactly
    one fits, which fits no other job. ``num_timelines`` were tried.
    """

    join: CallJoin | None
    fitting: tuple[str, ...]
    num_timelines: int


@dataclass(frozen=True, slots=True)
class JobJoins:
    """The pairs of all jobs as ``NCCL_JOINED_CALLS``, and the result of each job by its number.

    Jobs without calls have no entry; without a timeline there are no entries.
    """

    pairs: pd.DataFrame
    by_job: Mapping[int, JobJoin]


def joins_of(run: Run) -> JobJoins:
    """NCCL's calls with the executions of the timelines that were given beside its logs."""
    if not any(len(job.calls) for job in run.nccl) or run.table(TIMELINES.name).empty:
        return JobJoins(NCCL_JOINED_CALLS.empty(), {})
    return join_jobs(run.nccl, run.events, run.table(TENSOR_USES.name))


def join_jobs(jobs: Sequence[NcclRecording], events: pd.DataFrame, uses: pd.DataFrame) -> JobJoins:
    """Pair NCCL jobs with timelines, and join the calls of each pair.

    A timeline fits a job if at least half of the shorter of both sequences can be aligned. A job
    and a timeline belong together if each is the only one that fits the other. If several fit,
    nothing is joined: runs of the same model make the same calls.

    Args:
        jobs: The recordings in the order in which their tables were concatenated.
        events: Rows of ``EVENTS`` of any timelines, distinguished by their pass.
        uses: Rows of ``TENSOR_USES`` of these timelines.

    Returns:
        The pairs, their ``call`` counted through the table ``nccl_calls`` of all jobs.
    """
    pairings = _pairings(jobs, events, uses)
    fitting = [pair for pair, pairing in pairings.items() if pairing.share >= _LEAST_SHARE]
    num_jobs = Counter(timeline for _, timeline in fitting)
    by_job = {}
    for job, tried in itertools.groupby(pairings, key=lambda pair: pair[0]):
        names = tuple(timeline for number, timeline in fitting if number == job)
        alone = len(names) == 1 and num_jobs[names[0]] == 1
        join = pairings[job, names[0]].join() if alone else None
        by_job[job] = JobJoin(join, names, len(list(tried)))
    return JobJoins(_pairs(jobs, by_job), by_job)


def _pairings(
    jobs: Sequence[NcclRecording], events: pd.DataFrame, uses: pd.DataFrame
) -> dict[tuple[int, str], Pairing]:
    executed = events[(events["phase"] == "operation") & (events["fusion_id"] >= 0)]
    timelines = [str(name) for name in executed["pass_id"].unique()]
    return {
        (number, name): Pairing(
            job.calls, executed[executed["pass_id"] == name], uses[uses["pass_id"] == name]
        )
        for number, job in enumerate(jobs)
        if len(job.calls)
        for name in timelines
    }


def _pairs(jobs: Sequence[NcclRecording], by_job: Mapping[int, JobJoin]) -> pd.DataFrame:
    offsets = list(itertools.accumulate((len(job.calls) for job in jobs), initial=0))
    frames = [
        job_join.join.pairs.assign(call=job_join.join.pairs["call"] + offsets[number])
        for number, job_join in by_job.items()
        if job_join.join is not None and len(job_join.join.pairs)
    ]
    if not frames:
        return NCCL_JOINED_CALLS.empty()
    return NCCL_JOINED_CALLS.frame(pd.concat(frames, ignore_index=True))
