"""The errors of files that hold nothing usable: what each is, and what was looked for."""

from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.file_entry import FileEntry
from hvdprof.ingest.recognise import Kind, Recognised
from hvdprof.model.notes import Note
from hvdprof.model.sources import called

LOOKED_FOR = (
    f"Looked for: a run directory, {called()} (docs: Read timelines, logs and tables you have)."
)
_READS = "hvdprof reads run directories, timelines, traces, dumps, logs and benchmarks."
_MOST_KINDS = 3
_MOST_REASONS = 5


def refuse_runs(found: Sequence[Recognised]) -> None:
    """Raise where a run directory is among other files.

    Raises:
        UnreadableInputError: It is.
    """
    runs = [file.name for file in found if file.kind == Kind.RUN]
    if runs:
        raise UnreadableInputError(
            f"A run directory is read alone, not together with others: {runs[0]}.",
            hint=f"Give one of: {', '.join(runs[:5])}.",
        )


def refuse_all(entries: Sequence[FileEntry], notes: Sequence[Note]) -> NoReturn:
    """Raise the error for files of which none holds anything usable, each with its reason.

    Args:
        entries: The files.
        notes: What reading them said.

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
        raise UnreadableInputError(notes[0].text.rstrip(".") + ".", hint=LOOKED_FOR)
    if kind == Kind.TEXT:
        raise UnreadableInputError(
            f"{found.name} is text that holds nothing known.", hint=LOOKED_FOR
        )
    raise UnreadableInputError(
        f"{found.name} is {kind}; it is not read.", hint=found.hint or _READS
    )
