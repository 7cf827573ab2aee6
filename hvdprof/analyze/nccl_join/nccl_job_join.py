"""Pairing of several NCCL jobs with several timelines, and their joined calls."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from hvdprof.analyze.nccl_join.nccl_call_join import CallJoin, Pairing
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.run import Run
from hvdprof.model.tables.nccl_call_tables import NCCL_JOINED_CALLS
from hvdprof.model.tables.timeline_tables import TENSOR_USES, TIMELINES

_LEAST_SHARE = 0.5


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
