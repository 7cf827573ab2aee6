"""A file that is read alone or beside others: what it is, how much is used, or why nothing."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import pandas as pd

from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.ingest.recognise import Kind, Recognised
from hvdprof.ingest.timeline.meaning.semantics import sessions_of
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.sources import called
from hvdprof.model.tables.log_tables import THROUGHPUT
from hvdprof.model.tables.printed_tables import TRAINING_ITERATIONS
from hvdprof.model.tables.timeline_tables import TIMELINES

ProgressCallback = Callable[[str, int, int], None]
"""Called with the file being read, the bytes read so far, and the bytes of all files.

NCCL logs are read once more after all other files: both numbers then count their bytes alone.
"""

LOOKED_FOR = (
    f"Looked for: a run directory, {called()} (docs: Read timelines, logs and tables you have)."
)
_CUT = "Copy the whole file, and read it again."
_READS = "hvdprof reads run directories, timelines, traces, dumps, logs and benchmarks."
_MOST_KINDS = 3
_MOST_REASONS = 5

Frames = Mapping[str, Sequence[pd.DataFrame]]

_MOST_NAMED = 6


@dataclass(slots=True)
class FileEntry:
    """A row of FILES in the making; ``error`` says why nothing of the file is used."""

    found: Recognised
    kind: str
    num_lines: int | None = None
    num_rows: int = 0
    nccl_processes: set[tuple[str, str]] = field(default_factory=set)
    error: HvdprofError | None = None

    def fail(self, error: HvdprofError | OSError, code: NoteCode = NoteCode.UNREADABLE) -> Note:
        """Keep why nothing of the file is used; returns the note on it."""
        if isinstance(error, OSError):
            error = UnreadableInputError(f"{self.found.name}: {error.strerror or error}.")
        self.error = error
        return Note(code, error.message)

    @property
    def left_out(self) -> str:
        """Why nothing of the file is used; empty where something is, or nothing is known."""
        return "" if self.num_rows or self.error is None else self.error.message


def run_alone(found: Sequence[Recognised], *, is_one: bool) -> Recognised | None:
    """The run directory that a path stands for, in which other files may lie; None of files.

    Raises:
        UnreadableInputError: There are several run directories, or other paths beside one.
    """
    runs = [file for file in found if file.kind == Kind.RUN]
    if not runs or (is_one and len(runs) == 1):
        return runs[0] if runs else None
    names = [file.name for file in runs]
    raise UnreadableInputError(
        f"A run directory is read alone, not together with others: {names[0]}.",
        hint=f"Give one of: {', '.join(names[:5])}.",
    )


def refuse_all(entries: Sequence[FileEntry], notes: Sequence[Note]) -> NoReturn:
    """Raise the error for files of which none holds anything usable, each with its reason.

    Raises:
        UnreadableInputError: Always.
    """
    errors = {entry.error.message: entry.error for entry in entries if entry.error}
    unexplained = [entry for entry in entries if not entry.error]
    if len(errors) == 1 and not unexplained:
        (error,) = errors.values()
        raise UnreadableInputError(error.message, hint=error.hint)
    if len(entries) == 1:
        _refuse_one(entries[0], notes)
    kinds = Counter(entry.kind for entry in unexplained).most_common(_MOST_KINDS)
    counted = ", ".join(f"{number}: {kind}" for kind, number in kinds)
    lines = list(errors)[:_MOST_REASONS]
    if more := len(errors) - len(lines):
        lines.append(f"and {more} more")
    hints = [error.hint for error in errors.values()]
    hints += [entry.found.hint for entry in unexplained]
    raise UnreadableInputError(
        "\n  ".join(
            [
                f"None of the {len(entries)} files holds anything that hvdprof reads"
                f"{f' ({counted})' if counted else ''}.",
                *lines,
            ]
        ),
        hint=next(filter(None, hints), LOOKED_FOR if unexplained else ""),
    )


def _refuse_one(entry: FileEntry, notes: Sequence[Note]) -> NoReturn:
    found, kind = entry.found, entry.kind
    if notes:
        reason, hint = notes[0].text.rstrip("."), LOOKED_FOR
        if reason.endswith("data ends early"):
            clause, hint = reason.rpartition(": ")[2], _CUT
            reason = f"{found.name}: {clause}, before anything known"
        raise UnreadableInputError(f"{reason}.", hint=hint)
    if kind == Kind.TEXT:
        raise UnreadableInputError(
            f"{found.name} is text that holds nothing known.", hint=LOOKED_FOR
        )
    raise UnreadableInputError(
        f"{found.name} is {kind}; it is not read.", hint=found.hint or _READS
    )


def session_notes(frames: Frames) -> Iterator[Note]:
    """Which timelines one process wrote: their times can be compared as they stand."""
    rows = [row for frame in frames.get(TIMELINES.name, ()) for row in _axes(frame)]
    for session in sessions_of([epoch_ns for _, epoch_ns in rows]):
        files = [rows[position][0] for position in session]
        if len(files) > 1:
            named = " and ".join(files)
            text = f"{named} were written by one process: their times stand on one axis."
            yield Note(NoteCode.ONE_PROCESS, text, number=len(files))


def uncompared_throughputs(frames: Frames) -> Iterator[Note]:
    """The command that compares throughputs of several sizes, which lie beside traces."""
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
