"""Horovod's timeline and the marks of the recorder to blocks of EVENTS."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hvdprof.ingest.recorder.recorder_file import RecorderFile
from hvdprof.ingest.recorder.session_rows import UNKNOWN_ERROR_NS, Alignment
from hvdprof.ingest.storage.blocks import Block
from hvdprof.ingest.timeline.horovod_timeline import Summary, TimelineFile
from hvdprof.ingest.timeline.meaning.activities import PARTS
from hvdprof.ingest.timeline.meaning.file_facts import SINCE_BOOT, SINCE_RECORDING
from hvdprof.ingest.timeline.meaning.step_inference import InferredSteps
from hvdprof.ingest.timeline.meaning.timeline_rows import (
    EventRows,
    ExecutionRows,
    Nullable,
    UseRows,
)
from hvdprof.model.arrays import Int64s
from hvdprof.model.schema import names
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
)

Origin = tuple[str, str]
"""The pass and the segment whose timeline it is; a standalone file has its name as the pass."""

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
    spread = max(abs(difference - differences[nearest]) for difference in differences)
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


def timeline_blocks(
    origin: Origin, file: TimelineFile, clock: TimelineClock, recorded: StepTimes | None
) -> dict[str, Block]:
    """All tables of one timeline file by name.

    They are EVENTS, TENSOR_USES, EXECUTIONS, PENDING_NEGOTIATIONS and INFERRED_STEPS.
    A table without rows is left out; steps are inferred only where none were recorded.

    Args:
        origin: The pass and the segment whose timeline it is.
        file: What the file holds.
        clock: Its place on rank 0's clock.
        recorded: Rank 0's steps in this segment, by start, on its monotonic clock; ``None`` where
            no steps were recorded, so that INFERRED_STEPS stand in.
    """
    steps = inferred_times(file.steps, clock) if recorded is None else recorded
    blocks = {
        EVENTS.name: (len(file.rows), event_block(origin, file.rows, clock, steps)),
        TENSOR_USES.name: (len(file.uses), use_block(origin, file.uses, clock, steps)),
        EXECUTIONS.name: (
            len(file.executions),
            execution_block(origin, file.executions, clock, steps),
        ),
        PENDING_NEGOTIATIONS.name: (
            len(file.summary.pending),
            pending_block(origin, file.summary, clock),
        ),
    }
    if recorded is None:
        inferred = inferred_block(origin, file.steps, clock)
        blocks[INFERRED_STEPS.name] = (len(file.steps), inferred)
    return {name: block for name, (length, block) in blocks.items() if length}


def inferred_times(steps: InferredSteps, clock: TimelineClock) -> StepTimes:
    """Inferred steps on the clock; each reaches to the next, the last to its own end."""
    starts = steps.start_us * 1000 + clock.zero_ns
    last_end = steps.end_us[-1:] * 1000 + clock.zero_ns + _RESOLUTION_NS
    return StepTimes(np.arange(len(starts)), starts, np.append(starts[1:], last_end))


def inferred_times_of_table(inferred: pd.DataFrame) -> StepTimes:
    """As ``inferred_times``, of rows of INFERRED_STEPS."""
    starts = inferred["start_ns"].to_numpy(np.int64)
    last_end = starts[-1:] + inferred["communication_ns"].to_numpy(np.int64)[-1:] + _RESOLUTION_NS
    return StepTimes(np.arange(len(starts)), starts, np.append(starts[1:], last_end))


def event_block(origin: Origin, rows: EventRows, clock: TimelineClock, steps: StepTimes) -> Block:
    """EVENTS of a timeline file, or of a part of one, on a clock on which the steps are, too."""
    start_ns = rows.start_us * 1000 + clock.zero_ns
    return _of_timeline(origin, clock, len(rows)) | {
        "source": "timeline",
        "rank": rows.rank,
        "step": steps_at(start_ns, steps),
        "phase": rows.phase,
        "activity": rows.activity,
        "collective": rows.collective,
        "tensor": rows.tensor,
        "occurrence": rows.occurrence,
        "fusion_id": rows.fusion_id,
        "start_ns": start_ns,
        "dur_ns": np.where(rows.dur_us >= 0, rows.dur_us * 1000, -1),
        "size_bytes": rows.size_bytes,
    }


def use_block(origin: Origin, uses: UseRows, clock: TimelineClock, steps: StepTimes) -> Block:
    """TENSOR_USES of a timeline file, or of a part of one; see ``event_block``."""
    return _of_timeline(origin, clock, len(uses)) | {
        "step": steps_at(uses.begin_us * 1000 + clock.zero_ns, steps),
        "tensor": uses.tensor,
        "occurrence": uses.occurrence,
        "collective": uses.collective,
        "fusion_id": uses.fusion_id,
        "negotiation_start_ns": _ns(uses.negotiation_start_us, clock.zero_ns),
        "negotiation_ns": _ns(uses.negotiation_us),
        "start_ns": _ns(uses.start_us, clock.zero_ns),
        "dur_ns": _ns(uses.dur_us),
        "size_bytes": uses.size_bytes,
        "dtype": uses.dtype,
        "num_ticks": uses.num_ticks,
        "first_rank": uses.first_rank,
        "last_rank": uses.last_rank,
        "last_after_ns": _ns(uses.last_after_us),
        "warmup": uses.warmup,
    }


def execution_block(
    origin: Origin, executions: ExecutionRows, clock: TimelineClock, steps: StepTimes
) -> Block:
    """EXECUTIONS of a timeline file, or of a part of one; see ``event_block``."""
    start_ns = executions.start_us * 1000 + clock.zero_ns
    parts = {f"{part}_ns": executions.part_us[:, i] * 1000 for i, part in enumerate(PARTS)}
    return (
        _of_timeline(origin, clock, len(executions))
        | parts
        | {
            "step": steps_at(start_ns, steps),
            "fusion_id": executions.fusion_id,
            "collective": executions.collective,
            "num_tensors": executions.num_tensors,
            "size_bytes": executions.size_bytes,
            "start_ns": start_ns,
            "dur_ns": _ns(executions.dur_us),
            "warmup": executions.warmup,
        }
    )


def inferred_block(origin: Origin, steps: InferredSteps, clock: TimelineClock) -> Block:
    """INFERRED_STEPS of a timeline file."""
    lengths_ns = np.append(np.diff(steps.start_us) * 1000, -1)[: len(steps)]
    return _of_timeline(origin, clock, len(steps)) | {
        "step": np.arange(len(steps)),
        "start_ns": steps.start_us * 1000 + clock.zero_ns,
        "dur_ns": pd.arrays.IntegerArray(lengths_ns, np.arange(len(steps)) == len(steps) - 1),
        "communication_ns": (steps.end_us - steps.start_us) * 1000,
        "num_tensors": steps.num_tensors,
        "size_bytes": pd.arrays.IntegerArray(steps.size_bytes.copy(), steps.size_bytes < 0),
        "complete": steps.complete,
        "confidence": np.full(len(steps), steps.confidence),
    }


def pending_block(origin: Origin, summary: Summary, clock: TimelineClock) -> Block:
    """PENDING_NEGOTIATIONS of a timeline file."""
    pending = summary.pending
    start_us = np.asarray([wait.start_us for wait in pending], dtype=np.int64)
    return _of_timeline(origin, clock, len(pending)) | {
        "tensor": names([wait.tensor for wait in pending]),
        "collective": names([wait.collective for wait in pending]),
        "negotiation_start_ns": start_us * 1000 + clock.zero_ns,
        "pending_ns": (summary.end_us - start_us) * 1000,
        "submitted_ranks": np.asarray([_listed(wait.submitted) for wait in pending], dtype=object),
        "missing_ranks": np.asarray([_listed(wait.missing) for wait in pending], dtype=object),
    }


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))


def _of_timeline(origin: Origin, clock: TimelineClock, length: int) -> dict[str, Any]:
    pass_id, segment = origin
    errors_ns = np.full(length, clock.error_ns)
    return {"pass_id": pass_id, "segment": segment, "clock_error_ns": errors_ns}


def _ns(times_us: Nullable, zero_ns: int = 0) -> Nullable:
    times_ns = times_us.to_numpy(np.int64, na_value=0) * 1000 + zero_ns
    return pd.arrays.IntegerArray(times_ns, times_us.isna())


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


def steps_at(times_ns: Int64s, steps: StepTimes) -> Int64s:
    """The number of the step in which each time lies, -1 between steps."""
    if not len(steps.numbers):
        return np.full(len(times_ns), -1, dtype=np.int64)
    before = np.searchsorted(steps.starts_ns, times_ns, side="right") - 1
    inside = (before >= 0) & (times_ns < steps.ends_ns[before])
    return np.where(inside, steps.numbers[before], -1)


def _clock_pairs(rank_0: RecorderFile | None) -> Sequence[tuple[int, int]]:
    if rank_0 is None:
        return []
    pairs = [(switch.wall_ns, switch.monotonic_ns) for switch in rank_0.timeline]
    if rank_0.header:
        wall_ns = rank_0.header_number("wall_ns", 0)
        pairs.append((wall_ns, rank_0.header_number("monotonic_ns", 0)))
    return pairs
