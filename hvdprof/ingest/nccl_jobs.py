"""Which NCCL logs belong to one job, and what they say, as tables of one run."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from hvdprof.model.nccl_recording import NcclRecording


def jobs_of(num_processes: Mapping[Path, int]) -> list[list[Path]]:
    """The files of each job.

    A log of several processes is a job of its own. Logs of one process each that lie in one folder
    are those of the ranks of one job, as NCCL_DEBUG_FILE with ``%h`` and ``%p`` writes them.

    Args:
        num_processes: Number of processes whose lines are in each log; 2 stands for more too.
    """
    jobs = [[path] for path, number in num_processes.items() if number > 1]
    alone: dict[Path, list[Path]] = {}
    for path, number in num_processes.items():
        if number == 1:
            alone.setdefault(path.parent, []).append(path)
    return [*jobs, *alone.values()]


def nccl_tables(recordings: Sequence[NcclRecording]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables of some jobs by name, communicators numbered through."""
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
