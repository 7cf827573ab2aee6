"""Notes on what standalone files are to each other: one process, or several sizes of a job."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from hvdprof.ingest.timeline.meaning.joined_recordings import sessions_of
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.log_tables import THROUGHPUT
from hvdprof.model.tables.printed_tables import TRAINING_ITERATIONS
from hvdprof.model.tables.timeline_tables import TIMELINES

Frames = Mapping[str, Sequence[pd.DataFrame]]

_MOST_NAMED = 6


def session_notes(frames: Frames) -> Iterator[Note]:
    """Which timelines one process wrote: their times can be compared as they stand.

    Args:
        frames: Frames of tables by the name of the table.
    """
    rows = [row for frame in frames.get(TIMELINES.name, ()) for row in _axes(frame)]
    for session in sessions_of([epoch_ns for _, epoch_ns in rows]):
        files = [rows[position][0] for position in session]
        if len(files) > 1:
            named = " and ".join(files)
            text = f"{named} were written by one process: their times stand on one axis."
            yield Note(NoteCode.ONE_PROCESS, text, number=len(files))


def uncompared_throughputs(frames: Frames) -> Iterator[Note]:
    """The command that compares throughputs of several sizes, which lie beside traces.

    Args:
        frames: Frames of tables by the name of the table.
    """
    stated = [
        (str(file), int(size))
        for name in (THROUGHPUT.name, TRAINING_ITERATIONS.name)
        for frame in frames.get(name, ())
        for file, size in frame.loc[frame["np"].notna(), ["file", "np"]].itertuples(index=False)
    ]
    if len({size for _, size in stated}) > 1:
        files = list(dict.fromkeys(file for file, _ in stated))
        named = shlex.join(files) if len(files) <= _MOST_NAMED else "FILE..."
        command = f"hvdprof scaling {named}"
        text = f"Throughputs beside traces are not compared: `{command}` does it."
        yield Note(NoteCode.NOT_COMPARED, text, value=command)


def _axes(timelines: pd.DataFrame) -> list[tuple[str, int | None]]:
    epochs = timelines["epoch_ns"].array
    return [
        (str(file), None if pd.isna(epoch) else int(epoch))
        for file, epoch in zip(timelines["pass_id"], epochs, strict=True)
    ]
