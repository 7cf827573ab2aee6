"""Horovod's timeline and the marks of the recorder to blocks of EVENTS."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.ingest.recorder.clock_alignment import UNKNOWN_ERROR_NS, Alignment
from hvdprof.ingest.recorder.recorder_lines import RecorderFile
from hvdprof.ingest.storage.blocks import Block, names
from hvdprof.ingest.timeline.horovod_timeline import TimelineFile
from hvdprof.ingest.timeline.meaning.activities import PARTS
from hvdprof.ingest.timeline.meaning.file_facts import SINCE_BOOT, SINCE_RECORDING
from hvdprof.ingest.timeline.meaning.step_inference import InferredSteps
from hvdprof.ingest.timeline.meaning.timeline_rows import EventRows
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_tables import EXECUTIONS, INFERRED_STEPS, TENSOR_USES

Int64s = NDArray[np.int64]

# Horovod's own resolution.
_RESOLUTION_NS = 1000


@dataclass(frozen=True, slots=True)
class TimelineClock:
    """Rank 0's monotonic time at time 0 of a timeline file, and how wrong it may be."""

    zero_ns: int
    error_ns: int


def timeline_clock(file: TimelineFile, rank_0: RecorderFile | None) -> TimelineClock:
    """Where time 0 of a timeline file lies on rank 0's monotonic clock.

    The file gives its time 0 on the wall clock, the recorder gives pairs of both clocks. The pair
    nearest to time 0 is used, because the wall clock may be slewed later; by how much the pairs
    disagree is the error. A file without an epoch is on the monotonic clock already (Horovod 0.16
    to 0.20.0) or nowhere (before 0.16). Without any pair, or nowhere, the file keeps its own time
    with an unknown error.
    """
    pairs = _clock_pairs(rank_0)
    if file.epoch_us is None or not pairs or file.facts.time_zero == SINCE_RECORDING:
        return own_clock(file.facts.time_zero)
    epoch_ns = file.epoch_us * 1000
    differences = [wall_ns - monotonic_ns for wall_ns, monotonic_ns in pairs]
    nearest = min(range(len(pairs)), key=lambda i: abs(pairs[i][0] - epoch_ns))
    spread = max(abs(one - differences[nearest]) for one in differences)
    return TimelineClock(epoch_ns - differences[nearest], spread + _RESOLUTION_NS)


def own_clock(time_zero: str) -> TimelineClock:
    """The clock of a file that keeps its own time.

    Args:
        time_zero: What time 0 of the file is, as ``TimelineFacts.time_zero``.
    """
    return TimelineClock(0, _RESOLUTION_NS if time_zero == SINCE_BOOT else UNKNOWN_ERROR_NS)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Numbers, starts and ends of steps by start, in ns of one clock."""

    numbers: Int64s
    starts_ns: Int64s
    ends_ns: Int64s


def event_block(
    pass_id: str, segment: str, rows: EventRows, clock: TimelineClock, steps: StepTimes
) -> Block:
    """The events of one timeline file, or of a part of one.

    Args:
        pass_id: The pass.
        segment: The segment whose timeline it is.
        rows: What the file holds.
        clock: Its place on rank 0's clock.
        steps: The steps on that clock.
    """
    start_ns = rows.start_us * 1000 + clock.zero_ns
    return {
        "pass_id": pass_id,
        "segment": segment,
        "source": "timeline",
        "rank": rows.rank,
        "step": steps_at(start_ns, steps.numbers, steps.starts_ns, steps.ends_ns),
        "phase": rows.phase,
        "activity": rows.activity,
        "collective": rows.collective,
        "tensor": rows.tensor,
        "occurrence": rows.occurrence,
        "fusion_id": rows.fusion_id,
        "start_ns": start_ns,
        "dur_ns": np.where(rows.dur_us >= 0, rows.dur_us * 1000, -1),
        "size_bytes": rows.size_bytes,
        "clock_error_ns": np.full(len(rows), clock.error_ns),
    }


def timeline_blocks(
    pass_id: str,
    segment: str,
    file: TimelineFile,
    clock: TimelineClock,
    steps_of_rank_0: tuple[Int64s, Int64s, Int64s] | None,
) -> dict[str, Block]:
    """All tables of one timeline file by name: EVENTS, TENSOR_USES, EXECUTIONS, INFERRED_STEPS.

    A table without rows is left out; steps are inferred only where nobody recorded them.

    Args:
        pass_id: The pass.
        segment: The segment whose timeline it is.
        file: What the file holds.
        clock: Its place on rank 0's clock.
        steps_of_rank_0: Numbers, starts and ends of rank 0's steps in this segment, by start, on
            rank 0's monotonic clock; ``None`` where nobody recorded steps, so that those that the
            file itself shows stand in (``INFERRED_STEPS``).
    """
    recorded = steps_of_rank_0
    steps = inferred_times(file.steps, clock) if recorded is None else StepTimes(*recorded)
    common = {"pass_id": pass_id, "segment": segment}
    blocks = {
        EVENTS.name: (len(file.rows), event_block(pass_id, segment, file.rows, clock, steps)),
        TENSOR_USES.name: (len(file.uses), common | _use_columns(file, clock, steps)),
        EXECUTIONS.name: (len(file.executions), common | _execution_columns(file, clock, steps)),
    }
    if steps_of_rank_0 is None:
        inferred = common | _inferred_columns(file, clock)
        blocks[INFERRED_STEPS.name] = (len(file.steps), inferred)
    return {name: block for name, (length, block) in blocks.items() if length}


def inferred_times(steps: InferredSteps, clock: TimelineClock) -> StepTimes:
    """Inferred steps on the clock; each reaches to the next, the last to its own end."""
    starts = steps.start_us * 1000 + clock.zero_ns
    last_end = steps.end_us[-1:] * 1000 + clock.zero_ns + _RESOLUTION_NS
    return StepTimes(np.arange(len(starts)), starts, np.append(starts[1:], last_end))


def _use_columns(file: TimelineFile, clock: TimelineClock, steps: StepTimes) -> dict[str, Any]:
    uses = file.uses
    begin_ns = uses.begin_us * 1000 + clock.zero_ns
    return {
        "step": steps_at(begin_ns, steps.numbers, steps.starts_ns, steps.ends_ns),
        "tensor": uses.tensor,
        "occurrence": uses.occurrence,
        "collective": uses.collective,
        "fusion_id": uses.fusion_id,
        "negotiation_start_ns": uses.negotiation_start_us * 1000 + clock.zero_ns,
        "negotiation_ns": uses.negotiation_us * 1000,
        "start_ns": uses.start_us * 1000 + clock.zero_ns,
        "dur_ns": uses.dur_us * 1000,
        "size_bytes": uses.size_bytes,
        "dtype": uses.dtype,
        "num_ticks": uses.num_ticks,
        "first_rank": uses.first_rank,
        "last_rank": uses.last_rank,
        "last_after_ns": uses.last_after_us * 1000,
        "warmup": uses.warmup,
        "clock_error_ns": np.full(len(uses), clock.error_ns),
    }


def _execution_columns(
    file: TimelineFile, clock: TimelineClock, steps: StepTimes
) -> dict[str, Any]:
    executions = file.executions
    start_ns = executions.start_us * 1000 + clock.zero_ns
    parts = {f"{part}_ns": executions.part_us[:, i] * 1000 for i, part in enumerate(PARTS)}
    return parts | {
        "step": steps_at(start_ns, steps.numbers, steps.starts_ns, steps.ends_ns),
        "fusion_id": executions.fusion_id,
        "collective": executions.collective,
        "num_tensors": executions.num_tensors,
        "size_bytes": executions.size_bytes,
        "start_ns": start_ns,
        "dur_ns": executions.dur_us * 1000,
        "warmup": executions.warmup,
        "clock_error_ns": np.full(len(executions), clock.error_ns),
    }


def _inferred_columns(file: TimelineFile, clock: TimelineClock) -> dict[str, Any]:
    steps = file.steps
    lengths_ns = np.append(np.diff(steps.start_us) * 1000, -1)[: len(steps)]
    return {
        "step": np.arange(len(steps)),
        "start_ns": steps.start_us * 1000 + clock.zero_ns,
        "dur_ns": pd.arrays.IntegerArray(lengths_ns, np.arange(len(steps)) == len(steps) - 1),
        "communication_ns": (steps.end_us - steps.start_us) * 1000,
        "num_tensors": steps.num_tensors,
        "size_bytes": pd.arrays.IntegerArray(steps.size_bytes.copy(), steps.size_bytes < 0),
        "complete": steps.complete,
        "confidence": np.full(len(steps), steps.confidence),
        "clock_error_ns": np.full(len(steps), clock.error_ns),
    }


def mark_block(pass_id: str, rank: int, file: RecorderFile, alignment: Alignment) -> Block:
    """The marks that the training script set on one rank."""
    times_ns = np.asarray([mark.monotonic_ns for mark in file.marks], dtype=np.int64)
    return {
        "pass_id": pass_id,
        "segment": names([mark.segment for mark in file.marks]),
        "source": "recorder",
        "rank": np.full(len(times_ns), rank),
        "step": np.full(len(times_ns), -1),
        "phase": "mark",
        "activity": names([mark.name for mark in file.marks]),
        "collective": "",
        "tensor": "",
        "occurrence": np.zeros(len(times_ns), dtype=np.int64),
        "fusion_id": np.full(len(times_ns), -1),
        "start_ns": alignment.aligned_ns(times_ns),
        "dur_ns": np.zeros(len(times_ns), dtype=np.int64),
        "size_bytes": pd.array([None] * len(times_ns), dtype="Int64"),
        "clock_error_ns": alignment.errors_ns(times_ns),
    }


def steps_at(
    times_ns: Int64s,
    numbers: Int64s,
    starts_ns: Int64s,
    ends_ns: Int64s,
) -> Int64s:
    """The number of the step in which each time lies, -1 between steps."""
    if not len(numbers):
        return np.full(len(times_ns), -1, dtype=np.int64)
    before = np.searchsorted(starts_ns, times_ns, side="right") - 1
    inside = (before >= 0) & (times_ns < ends_ns[before])
    return np.where(inside, numbers[before], -1)


def _clock_pairs(rank_0: RecorderFile | None) -> Sequence[tuple[int, int]]:
    if rank_0 is None:
        return []
    pairs = [(switch.wall_ns, switch.monotonic_ns) for switch in rank_0.timeline]
    if rank_0.header:
        pairs.append((int(rank_0.header["wall_ns"]), int(rank_0.header["monotonic_ns"])))
    return pairs
