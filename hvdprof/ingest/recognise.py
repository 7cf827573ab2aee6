"""What a file is, by its content: the first and the last block decide, never the name."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import IO

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.foreign_files import (
    PARTS,
    ForeignFile,
    foreign_file,
    foreign_trace,
    is_comms_summary,
    is_flight_recorder,
    is_nccl_tests,
    is_nsys_export,
    is_phase_log,
    is_ras_report,
    is_stack_dump,
    profiler_trace,
)
from hvdprof.ingest.sources.archives import is_archive, unpack
from hvdprof.ingest.sources.listing import listing_of, matching, missing
from hvdprof.ingest.sources.workspace import Workspace, descriptor_of, file_of_stream
from hvdprof.ingest.text.compression import compression_of
from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.model.file_page import PHASE_LOG
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.layout import MANIFEST_NAME, is_run_directory
from hvdprof.rundir.regular_file import NotRegularFileError, open_regular, shown_name, unreadable

_BLOCK_BYTES = 65_536
_RECORDER = re.compile(rb'^\s*\{"kind": ?"(\w+)"', re.MULTILINE)
_SAMPLES = (b"sampling", b"lines", b"call", b"samples")
_PHASE = re.compile(rb'"ph"\s*:\s*"[A-Za-z]"')
_HOROVOD = re.compile(
    rb'"NEGOTIATE_|"start_time_since_epoch_in_micros"|"CYCLE_START"|"WAIT_FOR_(?:OTHER_|DATA)'
)
_NOT_FOREIGN = ForeignFile("")
_WRITTEN_BY_PEOPLE = frozenset((".md", ".rst", ".py", ".sh", ".yaml", ".yml", ".toml", ".ipynb"))
# Without NUL: a full disk leaves blocks of it in a text file.
_CONTROL = bytes(sorted(set(range(1, 32)) - {7, 8, 9, 10, 12, 13, 27}))


class Kind(StrEnum):
    """What a path can be; FOREIGN is named but not read."""

    RUN = "run directory"
    RECORDER = "recorder file"
    SAMPLES = "samples of the recorder"
    TIMELINE = "Horovod timeline"
    FLIGHT_RECORDER = "PyTorch Flight Recorder dump"
    RAS = "NCCL RAS report (JSON)"
    COMMS = "DeepSpeed comms summary (JSON)"
    NSYS = "export of Nsight Systems (SQLite)"
    NCCL_TESTS = "nccl-tests output (JSON)"
    PHASE_LOG = PHASE_LOG
    STACKS = "py-spy dump (JSON)"
    TRACE = "PyTorch profiler trace"
    TEXT = "text"
    ARCHIVE = "archive"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Recognised:
    """A path and what it is; ``what`` and ``hint`` say more where ``kind`` is FOREIGN.

    ``np`` is the number of ranks that the user states for a file that states none.
    """

    path: Path
    kind: Kind
    what: str
    size_bytes: int = 0
    hint: str = ""
    np: int | None = None

    @property
    def name(self) -> str:
        """Its name for tables and messages."""
        return shown_name(self.path)


@dataclass(slots=True)
class Found:
    """Files and run directories, each once, and sentences on what is left out."""

    files: list[Recognised] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def recognise_all(paths: Sequence[Path], workspace: Workspace) -> Found:
    """Every file and run directory under some paths; patterns such as ``logs/*.txt`` are expanded.

    A folder that is no run directory stands for the run directories and files in it, and so does
    an archive that is named. What cannot be read in a folder is FOREIGN.

    Args:
        paths: Files, folders, archives, patterns; ``-`` is standard input.
        workspace: Receives copies of streams and the files of archives.

    Raises:
        UnreadableInputError: A path does not exist or cannot be read, or a folder holds nothing or
            far too much.
    """
    found = Found()
    for path in paths:
        _add(path, found, workspace)
    found.files = list(dict.fromkeys(found.files))
    return found


def recognise(path: Path) -> Recognised:
    """What one file or folder is.

    Raises:
        UnreadableInputError: It cannot be read.
    """
    try:
        if path.is_dir():
            return Recognised(path, Kind.RUN, str(Kind.RUN))
        return _recognised(path)
    except NotRegularFileError as error:
        raise UnreadableInputError(
            f"{shown_name(path)} cannot be read: {error.strerror}.",
            hint="A pipe can be read from standard input: ... | hvdprof analyze -",
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error


def _recognised(path: Path) -> Recognised:
    head, tail, size = _ends(path)
    kind, foreign = _kind_of(head, tail)
    return Recognised(path, kind, foreign.what or str(kind), size, foreign.hint)


def _add(path: Path, found: Found, workspace: Workspace) -> None:
    descriptor = descriptor_of(path)
    if descriptor is not None:
        path = file_of_stream(path, descriptor, workspace)
    try:
        is_folder, is_there = path.is_dir(), path.exists()
    except OSError as error:
        raise unreadable(path, error) from error
    if is_folder:
        _add_folder(path, found)
    elif is_there:
        one = recognise(path)
        if one.kind == Kind.ARCHIVE:
            unpacked = unpack(path, workspace)
            found.notes += [clause.at(shown_name(path)) for clause in unpacked.notes]
            folder, content = unpacked.folder, list(unpacked.folder.iterdir())
            # An archive of a run has its folders in it.
            while len(content) == 1 and content[0].is_dir():
                (folder,) = content
                content = list(folder.iterdir())
            if not content:
                reason = unpacked.notes[0].text if unpacked.notes else "it holds no file"
                raise UnreadableInputError(f"{shown_name(path)}: {reason}.", hint="Copy it again.")
            _add_folder(folder, found)
        else:
            found.files.append(one)
    else:
        names = matching(path)
        if not names:
            raise missing(path)
        for name in names:
            _add(name, found, workspace)


def _add_folder(folder: Path, found: Found) -> None:
    if is_run_directory(folder):
        found.files.append(recognise(folder))
        return
    listed = listing_of(folder)
    if not (listed.runs or listed.files):
        around = next(filter(is_run_directory, folder.resolve().parents), "")
        raise UnreadableInputError(
            f"{shown_name(folder)} is not a run directory, and holds no file.",
            hint=f"It lies in one: hvdprof analyze {around}"
            if around
            else "Give the folder that `hvdprof bench` named, usually runs/<time>-<name>.",
        )
    if any(folder.glob("passes/*/recorder")):
        text = (
            f"{shown_name(folder)} has recordings of a run directory, and no {MANIFEST_NAME}: they "
            "are read as single files. Copy the run directory whole."
        )
        found.notes.append(Note(NoteCode.NOT_READ, text))
    found.notes += listed.notes
    found.files += map(recognise, listed.runs)
    files = []
    for path in listed.files:
        try:
            files.append(_in_folder(_recognised(path)))
        except OSError as error:
            what = f"unreadable ({error.strerror or error})"
            files.append(Recognised(path, Kind.FOREIGN, what))
            text = f"{shown_name(path)} cannot be read: {error.strerror or error}."
            found.notes.append(Note(NoteCode.UNREADABLE, text))
    # Beside recordings they say nothing of their own.
    found.files += [file for file in files if file.what not in PARTS] or files


def _in_folder(file: Recognised) -> Recognised:
    # A page that quotes an error is no output of a job; one that is named itself may be.
    if file.kind != Kind.TEXT or file.path.suffix.lower() not in _WRITTEN_BY_PEOPLE:
        return file
    what = f"documentation or source code by its name (*{file.path.suffix})"
    hint = "If it is output of a job, name the file itself."
    return replace(file, kind=Kind.FOREIGN, what=what, hint=hint)


def _ends(path: Path) -> tuple[bytes, bytes, int]:
    """The first block, decompressed where it can be, the last one, and the size of the file."""
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        head = stream.read(_BLOCK_BYTES)
        if compression_of(head):
            stream.seek(0)
            return _unpacked(stream, size, head), b"", size
        if size <= _BLOCK_BYTES:
            return head, b"", size
        stream.seek(max(size - _BLOCK_BYTES, _BLOCK_BYTES))
        return head, stream.read(_BLOCK_BYTES), size


def _unpacked(stream: IO[bytes], size: int, head: bytes) -> bytes:
    """The first block of a compressed file; as it stands there where it cannot be unpacked."""
    chunks = Chunks(stream, size, chunk_bytes=_BLOCK_BYTES)
    chunks.more()
    text = chunks.data[: chunks.end].tobytes()
    return head if chunks.broken and not text.strip() else text


def _kind_of_report(head: bytes, tail: bytes) -> Kind | None:
    if is_ras_report(head):
        return Kind.RAS
    if is_comms_summary(head):
        return Kind.COMMS
    if is_stack_dump(head):
        return Kind.STACKS
    if is_nccl_tests(head):
        return Kind.NCCL_TESTS
    if is_phase_log(head):
        return Kind.PHASE_LOG
    if is_nsys_export(head, tail):
        return Kind.NSYS
    return Kind.FLIGHT_RECORDER if is_flight_recorder(head, tail) else None


def _kind_of(head: bytes, tail: bytes) -> tuple[Kind, ForeignFile]:
    # Where it cannot be unpacked, the reader of timelines says what is wrong with it.
    if compression_of(head):
        return Kind.TIMELINE, _NOT_FOREIGN
    if is_archive(head):
        return Kind.ARCHIVE, _NOT_FOREIGN
    if known := _kind_of_report(head, tail):
        return known, _NOT_FOREIGN
    if foreign := foreign_file(head, tail):
        return Kind.FOREIGN, foreign
    both = head + b"\n" + tail
    if not both.strip():
        return Kind.FOREIGN, ForeignFile("an empty file")
    if recorded := _RECORDER.match(head):
        return (Kind.SAMPLES if recorded[1] in _SAMPLES else Kind.RECORDER), _NOT_FOREIGN
    if _PHASE.search(both):
        return _of_trace(both)
    if head.strip(b" \t\r\n\xef\xbb\xbf") in (b"[", b"[]"):
        return Kind.TIMELINE, _NOT_FOREIGN
    controls = len(both) - len(both.translate(None, delete=_CONTROL))
    if controls * 20 > len(both) or not both.strip(b"\0 \r\n"):
        return Kind.FOREIGN, ForeignFile("binary data of an unknown format")
    return Kind.TEXT, _NOT_FOREIGN


def _of_trace(text: bytes) -> tuple[Kind, ForeignFile]:
    if _HOROVOD.search(text):
        return Kind.TIMELINE, _NOT_FOREIGN
    if what := profiler_trace(text):
        return Kind.TRACE, ForeignFile(what)
    foreign = foreign_trace(text)
    return (Kind.FOREIGN, foreign) if foreign else (Kind.TIMELINE, _NOT_FOREIGN)
