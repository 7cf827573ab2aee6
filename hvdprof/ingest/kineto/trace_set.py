"""The traces of the ranks of one job, checked against each other and on one clock."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.foreign_files import torch_recording_hint
from hvdprof.ingest.kineto.collective_calls import CollectiveCall
from hvdprof.ingest.kineto.recording_choice import one_recording
from hvdprof.ingest.kineto.recordings import UNKNOWN_ERROR_NS
from hvdprof.ingest.kineto.trace_clocks import GpuClock, clock_shifts
from hvdprof.ingest.kineto.trace_file import TraceFile
from hvdprof.ingest.kineto.trace_steps import TraceStep, TraceSteps, trace_steps
from hvdprof.ingest.tables.collective_matching import Matching, SubmittedCall, match_collectives
from hvdprof.model.arrays import Int64s
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, DDP_ENGINE, FSDP_ENGINE, TORCH_ENGINE
from hvdprof.rundir.recording.recorder_format import SAME_CLOCK
from hvdprof.rundir.regular_file import shown_name

BY_COLLECTIVES = "collectives"
"""How clocks are related that nothing but the ends of collectives relates."""

MOST_UNMATCHED = 0.5
"""Share of calls without a partner from which the traces are of different jobs."""


@dataclass(slots=True)
class RankTrace:
    """The trace of one rank.

    ``steps`` are numbered alike on all ranks. ``offset_ns`` leads to the clock of the job, whose
    time 0 is the first event of all ranks. ``step_of`` is the number of the step of each call, -1
    outside steps. ``num_ranks`` is that of the job.
    """

    rank: int
    path: Path
    file: TraceFile
    steps: TraceSteps
    clock: GpuClock
    clock_method: str = SAME_CLOCK
    clock_error_ns: int = 0
    offset_ns: int = 0
    step_of: list[int] = field(default_factory=list)
    num_ranks: int = 1

    @property
    def hides_waits(self) -> bool:
        """Whether nothing says when the rank waited for others.

        Beside the traces that ``TraceFile`` names, those of several ranks that time no collective:
        NCCL's without kernels, or of a library that the profiler does not see.
        """
        return self.file.hides_waits or (self.num_ranks > 1 and not self.file.times_collectives)

    @property
    def first_ns(self) -> int:
        """Its first step or collective, on the clock of the trace."""
        times = [step.host_start_ns for step in self.steps.steps[:1]]
        return min(times + [call.arrival_ns for call in self.calls[:1]], default=0)

    @property
    def calls(self) -> list[CollectiveCall]:
        """Its collectives by arrival."""
        return self.file.calls


@dataclass(slots=True)
class TraceSet:
    """Traces by rank, the number of ranks of their job, and how their collectives match.

    ``left_out`` has a sentence for each file of which nothing is used, ``notes`` has those on the
    set.
    """

    size: int
    ranks: dict[int, RankTrace]
    matching: Matching
    notes: list[Note]
    left_out: dict[Path, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether there is a trace of every rank."""
        return len(self.ranks) == self.size

    @property
    def controller(self) -> str:
        """What moved the data: gloo, nccl; empty where unknown."""
        return " ".join(sorted({rank.file.backend for rank in self.ranks.values()} - {""}))

    @property
    def engine(self) -> str:
        """FSDP2 or DDP where a rank shows it; plain torch for one process that connects to none."""
        files = [rank.file for rank in self.ranks.values()]
        if self.size == 1 and not any(
            file.backend or file.calls or file.is_of_ddp for file in files
        ):
            return TORCH_ENGINE
        if any(file.is_of_fsdp2 for file in files):
            return FSDP_ENGINE
        is_ddp = any(file.is_of_ddp for file in files)
        return DDP_ENGINE if is_ddp else COLLECTIVES_ENGINE

    @property
    def missing(self) -> list[int]:
        """Ranks without a trace."""
        return sorted(set(range(self.size)) - set(self.ranks))


def trace_set(
    files: Sequence[tuple[Path, TraceFile]], unreadable: Mapping[Path, str] | None = None
) -> TraceSet:
    """Traces as those of one job.

    A trace that breaks off is left out: its events are not in order of time, so that any of them
    may be missing. Of several recordings, the only one with a trace of every rank is read.

    Args:
        files: Each trace with what it holds.
        unreadable: The other files that were given, each with why it holds nothing.

    Raises:
        UnreadableInputError: They are of several recordings of which not just one has a trace of
            every rank, their collectives differ, or none is whole.
    """
    notes: list[Note] = []
    left_out = dict(unreadable or {})
    whole = one_recording(files, left_out)
    stated = [file.size or 0 for _, file in whole.values()]
    size = max([*stated, *(rank + 1 for rank in whole)])
    ranks = {}
    for rank, (path, file) in sorted(whole.items()):
        clock = GpuClock.of(*file.launches)
        ranks[rank] = RankTrace(rank, path, file, trace_steps(file, clock), clock, num_ranks=size)
    if not any(rank.calls or rank.steps.steps for rank in ranks.values()):
        raise UnreadableInputError(
            f"{shown_name(files[0][0])} holds neither steps nor collectives.",
            hint=f"Call profiler.step() after each step. {torch_recording_hint(size)}",
        )
    _place_on_one_clock(ranks, notes)
    _begin_at_0(ranks)
    _number_alike(ranks, notes)
    for trace in ranks.values():
        trace.step_of = _steps_of_calls(trace)
    matching = match_collectives({rank: _submitted(trace) for rank, trace in ranks.items()})
    if matching.num_unmatched > MOST_UNMATCHED * max(matching.num_calls, 1):
        raise UnreadableInputError(
            f"{matching.num_unmatched} of {matching.num_calls} collectives differ between the "
            "ranks in kind, type or size: these traces are not of one job.",
            hint="Give the traces of all ranks of one job, of one recording.",
        )
    _relate_clocks(ranks, matching)
    if matching.num_unmatched:
        text = (
            f"{matching.num_unmatched} of {matching.num_calls} collectives have no partner on "
            "another rank and are left out of waiting."
        )
        notes.append(Note(NoteCode.UNMATCHED, text, number=matching.num_unmatched))
    return TraceSet(size, ranks, matching, notes, left_out)


def _place_on_one_clock(ranks: Mapping[int, RankTrace], notes: list[Note]) -> None:
    first = next(iter(ranks.values()))
    for rank in ranks.values():
        zero = rank.file.zero_ns
        if zero is None:
            text = "has no base time: its clock is not that of other ranks."
            notes.append(Note(NoteCode.NO_CLOCK, f"{shown_name(rank.path)} {text}", rank=rank.rank))
        rank.offset_ns = zero or 0
        is_same_host = rank is first or (
            bool(rank.file.host) and rank.file.host == first.file.host and zero is not None
        )
        rank.clock_method = SAME_CLOCK if is_same_host else "wall-clock"
        rank.clock_error_ns = 0 if is_same_host else UNKNOWN_ERROR_NS


def _begin_at_0(ranks: Mapping[int, RankTrace]) -> None:
    """Times since 1970 are no exact floating-point numbers of nanoseconds."""
    origin = min(rank.first_ns + rank.offset_ns for rank in ranks.values())
    for trace in ranks.values():
        trace.offset_ns -= origin


def _relate_clocks(ranks: Mapping[int, RankTrace], matching: Matching) -> None:
    """Move ranks whose clock is that of another host, or of one not named (torch below 2.13)."""
    if all(one.clock_method == SAME_CLOCK for one in ranks.values()):
        return
    first = next(iter(ranks.values()))
    shifts = clock_shifts({rank: one.calls for rank, one in ranks.items()}, matching.ids)
    for rank, (shift, error) in shifts.items():
        trace = ranks[rank]
        if trace.clock_method != SAME_CLOCK and error < trace.clock_error_ns:
            trace.offset_ns = first.offset_ns + shift
            trace.clock_method, trace.clock_error_ns = BY_COLLECTIVES, error
    _begin_at_0(ranks)


def _number_alike(ranks: Mapping[int, RankTrace], notes: list[Note]) -> None:
    """Number inferred steps of all ranks by those of the first rank that end nearest."""
    marked = [rank for rank in ranks.values() if rank.steps.are_marked and rank.steps.steps]
    inferred = [rank for rank in ranks.values() if not rank.steps.are_marked and rank.steps.steps]
    if inferred:
        text = (
            "The traces mark no steps (ProfilerStep#N): steps are inferred from optimizer "
            "updates. Call profiler.step() after each step to mark them."
        )
        notes.append(Note(NoteCode.INFERRED_STEPS, text))
    if not inferred:
        return
    reference = (marked or inferred)[0]
    ends = np.array([step.end_ns + reference.offset_ns for step in reference.steps.steps])
    numbers = np.array([step.number for step in reference.steps.steps])
    for trace in inferred:
        if trace is not reference:
            trace.steps = _renumbered(trace, ends, numbers)


def _renumbered(one: RankTrace, ends: Int64s, numbers: Int64s) -> TraceSteps:
    nearest_steps: dict[int, TraceStep] = {}
    for step in one.steps.steps:
        nearest = int(np.abs(ends - (step.end_ns + one.offset_ns)).argmin())
        nearest_steps.setdefault(int(numbers[nearest]), step)
    return TraceSteps(
        tuple(replace(step, number=number) for number, step in sorted(nearest_steps.items())), False
    )


def _steps_of_calls(one: RankTrace) -> list[int]:
    """The step in which the host submitted each call, else in which it arrived; -1 outside."""
    steps = one.steps.steps
    hosted = [step.host_start_ns for step in steps]
    worked = [step.start_ns for step in steps]
    found = []
    for call in one.calls:
        is_hosted = call.submitted_ns is not None
        at = call.submitted_ns if call.submitted_ns is not None else call.arrival_ns
        place = bisect_right(hosted if is_hosted else worked, at) - 1
        if place < 0:
            found.append(-1)
            continue
        step = steps[place]
        end = step.host_end_ns if is_hosted else step.end_ns
        found.append(step.number if at < end else -1)
    return found


def _submitted(one: RankTrace) -> list[SubmittedCall]:
    return [
        SubmittedCall(f"{call.group} {call.ranks}", step, call.seq, call.signature)
        for call, step in zip(one.calls, one.step_of, strict=True)
    ]
