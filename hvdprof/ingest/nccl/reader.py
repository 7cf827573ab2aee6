"""NCCL logs in, an ``NcclRecording`` of declared tables out: the entry point of this package."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.nccl.communicators import add_announced
from hvdprof.ingest.nccl.joining import (
    Communicator,
    communicator_frame,
    join_members,
    nics_in_use,
    rank_frame,
)
from hvdprof.ingest.nccl.line_reader import LineKinds
from hvdprof.ingest.nccl.logbook import Logbook
from hvdprof.ingest.nccl.scanner import Scanner
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.ingest.text.printed_lines import LogFile
from hvdprof.ingest.text.text_lines import BrokenEndError
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.nccl_call_tables import NCCL_QUOTES
from hvdprof.rundir.regular_file import shown_name
from hvdprof.units import counted

_OWNED = (
    "nccl_channels",
    "nccl_rings",
    "nccl_trees",
    "nccl_connections",
    "nccl_tuning",
    "nccl_init_timings",
)


Progress = Callable[[Path, int], None]
"""Called with the file that is being read and how many bytes of it have been read."""


def read_nccl_logs(paths: Sequence[Path], *, progress: Progress | None = None) -> NcclRecording:
    """Read the NCCL debug output of one job: one file for all ranks, or one for each.

    Lines of NCCL 2.2 to 2.27 and RCCL are understood behind any launcher's prefix, cut, glued or
    interrupted. Files are read in one pass with bounded memory apart from the tables. From
    131,072 calls on, these lie in a file of the temporary folder.

    Args:
        paths: The files, compressed or not.
        progress: Called as reading makes progress.

    Returns:
        Declared tables; times in ns, sizes in bytes. ``notes`` say what was damaged or ambiguous.

    Raises:
        UnreadableInputError: A file cannot be read, none holds a line of NCCL's, or the temporary
            folder has no room for millions of calls.
    """
    log, kinds = Logbook(), LineKinds()
    scanner = Scanner(log, kinds)
    broken: list[Note] = []
    try:
        for path in paths:
            scanner.open(shown_name(path))
            for line in _lines_of(path, scanner, broken, progress):
                scanner.read(line)
            scanner.close()
        recording = _recording(log, kinds, scanner)
    except OSError as error:
        raise UnreadableInputError(
            f"Calls cannot be put aside in {tempfile.gettempdir()}: {error.strerror or error}.",
            hint="Set TMPDIR to a folder with room.",
        ) from error
    recording = replace(recording, notes=(*recording.notes, *broken))
    if recording.line_kinds.empty and recording.problems.empty and recording.versions.empty:
        raise UnreadableInputError(
            f"There is no line of NCCL's in {', '.join(map(shown_name, paths))}.",
            hint="Record one with NCCL_DEBUG=INFO.",
        )
    return recording


def _lines_of(
    path: Path, scanner: Scanner, broken: list[Note], progress: Progress | None
) -> Iterator[PrintedLine]:
    within = None if progress is None else lambda done, _: progress(path, done)
    try:
        yield from LogFile(path, within).lines(scanner.wanted, scanner.read_ahead)
    except BrokenEndError as error:
        broken.append(Note(NoteCode.CUT_SHORT, str(error)).at(shown_name(path)))
    except OSError as error:
        raise UnreadableInputError(
            f"The log {shown_name(path)} cannot be read: {error.strerror or error}."
        ) from error


def _recording(log: Logbook, kinds: LineKinds, scanner: Scanner) -> NcclRecording:
    add_announced(log)
    communicators = join_members(log.members)
    owner = _owners(log, communicators)
    frames = {
        name.removeprefix("nccl_"): rows.frame({"communicator": owner} if name in _OWNED else None)
        for name, rows in log.rows.items()
        if name != "nccl_calls"
    }
    ranks = rank_frame(log, communicators)
    frames["nics"] = nics_in_use(frames["nics"], ranks, frames["connections"])
    return NcclRecording(
        **frames,
        versions=log.troubles.versions(),
        communicators=communicator_frame(log, communicators),
        ranks=ranks,
        calls=log.rows["nccl_calls"].frame({"communicator": owner, "rank": _ranks(log)}),
        problems=log.troubles.problems([process.progress for process in log.processes]),
        line_kinds=kinds.frame(),
        of_hvdprof=False,
        quotes=NCCL_QUOTES.frame(
            [
                {"file": place[0], "line": place[1], "text": text}
                for place, text in log.quotes.items()
            ]
        ),
        notes=_notes(log, communicators, scanner, kinds.num_not_understood),
    )


def _owners(log: Logbook, communicators: Sequence[Communicator]) -> npt.NDArray[np.int64]:
    """The communicator of every context, -1 where the log does not show it.

    Lines that no Init line of their thread claims (2.22 connects at the first collective, from a
    thread of its own) belong to the only communicator of their process, if it has only one.
    """
    communicator_of = {
        member: number
        for number, communicator in enumerate(communicators)
        for member in communicator.members
    }
    only = []
    for process in log.processes:
        numbers = {communicator_of[member] for member in process.members}
        only.append(numbers.pop() if len(numbers) == 1 else -1)
    owners = [
        only[process] if member is None else communicator_of[member]
        for member, process in zip(log.context_owner, log.context_process, strict=True)
    ]
    return np.array([*owners, -1], dtype=np.int64)


def _ranks(log: Logbook) -> npt.NDArray[np.int64]:
    """The rank of every context that a line names by its communicator, -1 where unknown."""
    ranks = [
        -1 if member is None or log.members[member].rank is None else log.members[member].rank
        for member in log.context_owner
    ]
    return np.array([*ranks, -1], dtype=np.int64)


def _notes(
    log: Logbook, communicators: Sequence[Communicator], scanner: Scanner, num_unknown: int
) -> tuple[Note, ...]:
    unknown = " with NCCL's prefix not understood; nccl_line_kinds has samples"
    rejoined = " put together again that another writer had cut"
    cut = " longer than 4 kB, of which only the beginning was read"
    alike = " that the log does not distinguish from others of the same size"
    num_alike = sum(
        communicator.num_joined
        for communicator in communicators
        if communicator.join == "ambiguous"
    )
    notes = (
        (NoteCode.NCCL_LINES, num_unknown, "line", unknown),
        (NoteCode.NCCL_LINES, scanner.num_rejoined, "line", rejoined),
        (NoteCode.LONG_LINE, scanner.num_cut, "line", cut),
        (NoteCode.OMITTED, log.troubles.num_dropped, "further warning", " not kept one by one"),
        (NoteCode.AMBIGUOUS, num_alike, "communicator", alike),
    )
    return tuple(
        Note(code, f"{counted(number, noun)}{text}.", number=number)
        for code, number, noun, text in notes
        if number
    )
