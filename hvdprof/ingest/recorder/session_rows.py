"""The ranks of a session of an elastic job and their times, from recorder files.

Tested by tests/analyze/steps/test_elastic_sessions.py.
"""

from collections.abc import Mapping

import pandas as pd

from hvdprof.ingest.recorder.recorder_file import RecorderFile
from hvdprof.model.tables.session_tables import SESSION_RANKS
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
