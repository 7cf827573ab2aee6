"""Sessions in recorder files: ranks, times, evaluations, and each rank's clock against rank 0's."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.ingest.recorder.recorder_file import Exchange, RecorderFile, SegmentRecording
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.window_tables import SESSION_RANKS
from hvdprof.rundir.layout import session_id
from hvdprof.rundir.manifest import PassRecord
from hvdprof.rundir.recording.recorder_format import SAME_CLOCK, SessionLine

_OTHER_JOB = Note(
    NoteCode.LEFT_OUT, "it was recorded at another time than other ranks, by another job: left out"
)

UNKNOWN_ERROR_NS = 1_000_000_000
"""Stands for an unknown error of an alignment: large enough that no wait is attributed by it."""

UNCORRECTED_DRIFT = 100e-6
"""Rate by which clocks of two hosts may part where no second exchange shows it (100 ppm, a usual
tolerance of the quartz of a server board)."""

_WALL_ERROR_NS = 3_600_000_000_000
"""By which wall clocks of two hosts may differ, such as where one is set by hand."""

LARGEST_DRIFT = 1.0
"""No clock gains a second per second: one of the exchanges is damaged."""


def session_ranks(record: PassRecord, files: Mapping[int, RecorderFile]) -> pd.DataFrame:
    """SESSION_RANKS of a session, one row per rank whose file names its session."""
    rows = [
        _row(record, rank, file, file.session)
        for rank, file in sorted(files.items())
        if file.session is not None
    ]
    return SESSION_RANKS.frame(rows)


def _row(
    record: PassRecord, rank: int, file: RecorderFile, begin: SessionLine
) -> dict[str, object]:
    number = record.session or 0
    end = file.session_end
    begins_ns, ends_ns = _steps(file)
    return {
        "launch": record.id.removesuffix(session_id("", number)),
        "session": number,
        "pass_id": record.id,
        "rank": rank,
        "host": str(begin.get("host", "")),
        "slot": begin["slot"],
        "hostname": file.host_fact("hostname") or "",
        "pid": file.header.get("pid", -1),
        "launch_rank": begin["launch_rank"],
        "started_ns": begin["started_ns"],
        "left_ns": begin["left_ns"],
        "shut_down_ns": begin["shut_down_ns"],
        "initialised_ns": begin["initialised_ns"],
        "entered_ns": begin["entered_ns"],
        "first_step_ns": min(begins_ns, default=None),
        "last_step_end_ns": max(ends_ns, default=None),
        "num_steps": len(begins_ns),
        "num_updates": end["num_steps"] if end else None,
        "num_committed": end["num_committed"] if end else None,
        "why": str(end.get("why", "")) if end else "",
    }


def _steps(file: RecorderFile) -> tuple[list[int], list[int]]:
    """Begins and ends of all steps on the clock of the rank."""
    tables = [segment.step_table() for segment in file.segments.values()]
    begins_ns = [begin for table in tables for begin in table[:, 2].tolist()]
    return begins_ns, [end for table in tables for end in (table[:, 2] + table[:, 3]).tolist()]


def others_in(files: Mapping[int, RecorderFile]) -> dict[int, Note]:
    """Recordings of another rank or job, each with why: those of one job overlap in time.

    Args:
        files: What each rank of a launch recorded, windows as steps.
    """
    is_one_host = len({file.host_fact("boot_id") for file in files.values()}) == 1
    error_ns = 0 if is_one_host else _WALL_ERROR_NS
    found, spans = {}, {}
    for rank, file in files.items():
        if (named := file.header_number("rank", rank)) != rank:
            found[rank] = Note(NoteCode.LEFT_OUT, f"its header names rank {named}: left out")
        elif file.header and (ends_ns := _steps(file)[1]):
            end_ns = max(ends_ns) + _wall_less_monotonic(file) + error_ns
            spans[rank] = file.header_number("wall_ns", 0), end_ns
    first_end_ns = min((end_ns for _, end_ns in spans.values()), default=0)
    later = {rank for rank, (begin_ns, _) in spans.items() if begin_ns > first_end_ns}
    groups = later, spans.keys() - later
    fewer = min(groups, key=lambda group: (len(group), -min(group, default=0)))
    return found | dict.fromkeys(sorted(fewer), _OTHER_JOB)


def exclude_evaluations(files: Collection[RecorderFile]) -> None:
    """Let the steps in which all ranks evaluate begin after it, as warm-up.

    The ranks that recorded a step decide: the recording of another one may be cut off before it.

    Args:
        files: What each rank of a pass recorded; changed in place.
    """
    names = dict.fromkeys(name for file in files for name in file.segments)
    for name in names:
        recordings = [file.segments[name] for file in files if name in file.segments]
        steps = _steps_all_evaluate(recordings)
        if len(steps):
            for recording in recordings:
                recording.begin_after_evaluation(steps)


def exclude_profiled(files: Collection[RecorderFile]) -> None:
    """Let steps, or windows of a light recording, be warm-up on all ranks where one is profiled.

    Args:
        files: What each rank of a pass recorded, before windows become steps; changed in place.
    """
    names = dict.fromkeys(name for file in files for name in file.segments)
    for name in names:
        recordings = [file.segments[name] for file in files if name in file.segments]
        profiled = {steps for recording in recordings for steps in recording.profiled}
        for recording in recordings if profiled else ():
            steps, windows = recording.step_table(), recording.windows.table()
            for first, last in profiled:
                steps[(steps[:, 0] >= first) & (steps[:, 0] <= last), 1] = 1
                is_hit = (windows["step"] <= last) & (windows["last_step"] >= first)
                windows["warmup"][is_hit] = 1


def _steps_all_evaluate(recordings: Sequence[SegmentRecording]) -> NDArray[np.int64]:
    evaluating = Counter(
        step for recording in recordings for step in set(recording.evaluations().tolist())
    )
    candidates = np.array(sorted(evaluating), dtype=np.int64)
    holding = np.zeros(len(candidates), dtype=np.int64)
    for recording in recordings:
        holding += np.isin(candidates, recording.step_table()[:, 0])
    counts = np.array([evaluating[step] for step in candidates.tolist()], dtype=np.int64)
    return np.asarray(candidates[counts == holding])


@dataclass(frozen=True, slots=True)
class Alignment:
    """``aligned = monotonic + offset_ns + drift * (monotonic - from_ns)``.

    ``error_ns`` bounds the error at the exchanges; ``error_rate`` times the time since the only
    exchange is added to it.
    """

    method: str
    from_ns: int
    offset_ns: int
    drift: float
    error_ns: int
    error_rate: float = 0.0

    def aligned_ns(self, monotonic_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Times of the rank's clock on rank 0's monotonic clock, ns."""
        since = (monotonic_ns - self.from_ns).astype(np.float64)
        correction = np.rint(self.drift * since).astype(np.int64)
        return np.asarray(monotonic_ns + self.offset_ns + correction, dtype=np.int64)

    def errors_ns(self, monotonic_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The largest error of the alignment at each time, ns."""
        since = np.abs(monotonic_ns - self.from_ns).astype(np.float64)
        return np.asarray(self.error_ns + np.rint(self.error_rate * since), dtype=np.int64)


def alignment_of(file: RecorderFile, rank_0: RecorderFile | None) -> Alignment:
    """How the clock of a recorder file relates to rank 0's.

    Without any exchange, processes of one boot share the monotonic clock; across hosts the wall
    clocks stand in with an unknown error.
    """
    if file.exchanges:
        return _from_exchanges(file.exchanges)
    if rank_0 is None or not (file.header and rank_0.header):
        return Alignment("none", 0, 0, 0.0, UNKNOWN_ERROR_NS)
    boot = file.host_fact("boot_id")
    if boot is not None and boot == rank_0.host_fact("boot_id"):
        return Alignment(SAME_CLOCK, 0, 0, 0.0, 0)
    offset = _wall_less_monotonic(file) - _wall_less_monotonic(rank_0)
    return Alignment("wall-clock", 0, offset, 0.0, UNKNOWN_ERROR_NS)


def _from_exchanges(exchanges: Sequence[Exchange]) -> Alignment:
    first, last = exchanges[0], exchanges[-1]
    between_ns = last.monotonic_ns - first.monotonic_ns
    if between_ns > 0:
        drift = (last.offset_ns - first.offset_ns) / between_ns
        if abs(drift) >= LARGEST_DRIFT:
            return Alignment(
                first.method, first.monotonic_ns, first.offset_ns, 0.0, UNKNOWN_ERROR_NS
            )
        error_ns = max(first.error_ns, last.error_ns)
        return Alignment(first.method, first.monotonic_ns, first.offset_ns, drift, error_ns)
    error_rate = 0.0 if first.method == SAME_CLOCK else UNCORRECTED_DRIFT
    return Alignment(
        first.method, first.monotonic_ns, first.offset_ns, 0.0, first.error_ns, error_rate
    )


def _wall_less_monotonic(file: RecorderFile) -> int:
    return file.header_number("wall_ns", 0) - file.header_number("monotonic_ns", 0)
