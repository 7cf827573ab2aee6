"""What recorder files say of whole sessions: ranks, times, evaluations, steps under a profiler."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.ingest.recorder.recorder_file import RecorderFile, SegmentRecording
from hvdprof.model.tables.window_tables import SESSION_RANKS
from hvdprof.rundir.layout import session_id
from hvdprof.rundir.manifest import PassRecord
from hvdprof.rundir.recording.recorder_format import SessionLine


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
    begins_ns: list[int] = []
    ends_ns: list[int] = []
    for segment in file.segments.values():
        table = segment.step_table()
        begins_ns += table[:, 2].tolist()
        ends_ns += (table[:, 2] + table[:, 3]).tolist()
    return begins_ns, ends_ns


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
