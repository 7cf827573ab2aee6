"""A file that is read alone or beside others: what it is, how much is used, or why nothing."""

from dataclasses import dataclass, field

from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.ingest.recognise import Recognised
from hvdprof.model.notes import Note, NoteCode


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
