"""Who was in a session of an elastic job, and when: the recorder files of its ranks as rows."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from hvdprof.ingest.recorder.recorder_lines import RecorderFile
from hvdprof.model.tables.session_tables import SESSION_RANKS
from hvdprof.rundir.layout import session_id
from hvdprof.rundir.manifest import PassRecord

_MOMENTS = ("left_ns", "shut_down_ns", "initialised_ns")


def session_ranks(record: PassRecord, files: Mapping[int, RecorderFile]) -> pd.DataFrame:
    """SESSION_RANKS of a session, one row a rank that says which session it recorded."""
    rows = [
        _row(record, rank, file) for rank, file in sorted(files.items()) if file.session is not None
    ]
    return SESSION_RANKS.frame(rows)


def _row(record: PassRecord, rank: int, file: RecorderFile) -> dict[str, Any]:
    number = record.session or 0
    said, end = file.session or {}, file.session_end or {}
    host = file.header.get("host")
    begins_ns, ends_ns = _steps(file)
    return {
        "launch": record.id.removesuffix(session_id("", number)),
        "session": number,
        "pass_id": record.id,
        "rank": rank,
        "host": str(said.get("host", "")),
        "slot": said["slot"],
        "hostname": str(host.get("hostname", "")) if isinstance(host, Mapping) else "",
        "pid": file.header.get("pid", -1),
        "launch_rank": said["launch_rank"],
        "started_ns": said["started_ns"],
        **{name: said[name] for name in _MOMENTS},
        "entered_ns": said["entered_ns"],
        "first_step_ns": min(begins_ns, default=None),
        "last_step_end_ns": max(ends_ns, default=None),
        "num_steps": len(begins_ns),
        "num_updates": end.get("num_steps"),
        "num_committed": end.get("num_committed"),
        "why": str(end.get("why", "")),
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
