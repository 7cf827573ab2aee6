"""Which NCCL logs belong to one job, and what they say, as tables of one run."""

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from hvdprof.model.nccl_recording import NcclRecording

Process = tuple[str, str]
"""Host and process id as they stand in a log."""


def jobs_of(processes: Mapping[Path, Collection[Process]]) -> list[list[Path]]:
    """The files of each job.

    A log of several processes is a job of its own. Logs of one process each belong together where
    they lie in one folder and their names differ in that host, that process id and numbers alone,
    as NCCL_DEBUG_FILE writes them for ``%h`` and ``%p``.

    Args:
        processes: Processes whose lines are in each log; two mean two or more.
    """
    jobs: dict[object, list[Path]] = {}
    for path, members in processes.items():
        jobs.setdefault(_job_key(path, members), []).append(path)
    return list(jobs.values())


def _job_key(path: Path, members: Collection[Process]) -> object:
    if len(members) != 1:
        return path
    ((host, pid),) = members
    name = path.name.replace(host or "%h", "%h").replace(pid, "%p")
    return path.parent, re.sub(r"\d+", "#", name)


def nccl_tables(recordings: Sequence[NcclRecording]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables of some jobs by name, communicators numbered across them."""
    offset = 0
    for recording in recordings:
        numbers = recording.communicators["communicator"]
        for field in dataclasses.fields(recording):
            frame = getattr(recording, field.name)
            if not isinstance(frame, pd.DataFrame):
                continue
            if offset and "communicator" in frame:
                frame = frame.assign(communicator=frame["communicator"] + offset)
            yield f"nccl_{field.name}", frame
        offset += int(numbers.max()) + 1 if len(numbers) else 0
