"""Horovod's timeline and the marks of the recorder to blocks of EVENTS."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.ingest.blocks import Block, names
from hvdprof.ingest.clock import UNKNOWN_ERROR_NS, Alignment
from hvdprof.ingest.horovod_timeline import TimelineFile
from hvdprof.ingest.recorder_file import RecorderFile

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
    disagree is the error. A file without an epoch (Horovod before 0.20.1) is on the monotonic
    clock already. Without any pair the file keeps its own time, with an unknown error.
    """
    if file.epoch_us is None:
        return TimelineClock(0, _RESOLUTION_NS)
    pairs = _clock_pairs(rank_0)
    if not pairs:
        return TimelineClock(0, UNKNOWN_ERROR_NS)
    epoch_ns = file.epoch_us * 1000
    differences = [wall_ns - monotonic_ns for wall_ns, monotonic_ns in pairs]
    nearest = min(range(len(pairs)), key=lambda i: abs(pairs[i][0] - epoch_ns))
    spread = max(abs(one - differences[nearest]) for one in differences)
    return TimelineClock(epoch_ns - differences[nearest], spread + _RESOLUTION_NS)


def timeline_block(
    pass_id: str,
    segment: str,
    file: TimelineFile,
    clock: TimelineClock,
    steps_of_rank_0: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
) -> Block:
    """The events of one timeline file.

    Args:
        pass_id: The pass.
        segment: The segment whose timeline it is.
        file: What the file holds.
        clock: Its place on rank 0's clock.
        steps_of_rank_0: Numbers, starts and ends of rank 0's steps in this segment, by start, on
            rank 0's monotonic clock.
    """
    rows = file.rows
    start_ns = np.asarray([row.start_us for row in rows], dtype=np.int64) * 1000 + clock.zero_ns
    dur_us = np.asarray([row.dur_us for row in rows], dtype=np.int64)
    return {
        "pass_id": pass_id,
        "segment": segment,
        "source": "timeline",
        "rank": np.asarray([row.rank for row in rows], dtype=np.int64),
        "step": steps_at(start_ns, *steps_of_rank_0),
        "phase": names([row.phase for row in rows]),
        "activity": names([row.activity for row in rows]),
        "collective": names([row.collective for row in rows]),
        "tensor": names([row.tensor for row in rows]),
        "occurrence": np.asarray([row.occurrence for row in rows], dtype=np.int64),
        "fusion_id": np.asarray([row.fusion_id for row in rows], dtype=np.int64),
        "start_ns": start_ns,
        "dur_ns": np.where(dur_us >= 0, dur_us * 1000, -1),
        "size_bytes": pd.array([row.size_bytes for row in rows], dtype="Int64"),
        "clock_error_ns": np.full(len(rows), clock.error_ns),
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
    times_ns: NDArray[np.int64],
    numbers: NDArray[np.int64],
    starts_ns: NDArray[np.int64],
    ends_ns: NDArray[np.int64],
) -> NDArray[np.int64]:
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
