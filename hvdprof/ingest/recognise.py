"""What a file is, by its content: the first and the last block decide, never the name."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.rundir.layout import MANIFEST_NAME

_BLOCK_BYTES = 65_536
_MOST_FILES = 10_000
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BINARY_FORMATS = (
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3\0", "a SQLite database (perhaps of Nsight Systems)"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x7fELF", "a program (ELF)"),
    (b"\x89PNG", "a picture"),
    (b"%PDF", "a PDF document"),
    (b"\xfd7zXZ", "an xz archive: unpack it first"),
    (b"BZh", "a bzip2 archive: unpack it first"),
)
_RECORDER = re.compile(rb'^\s*\{"kind": ?"\w+"', re.MULTILINE)
_PHASE = re.compile(rb'"ph"\s*:\s*"[A-Za-z]"')
_HOROVOD = re.compile(
    rb'"NEGOTIATE_|"start_time_since_epoch_in_micros"|"CYCLE_START"|"WAIT_FOR_(?:OTHER_|DATA)'
)
_KINETO = re.compile(
    rb'"deviceProperties"|"Kineto|"cuda_runtime"|"cpu_op"|"ProfilerStep#|"Trace id"'
)
_THREADS = re.compile(rb'"tid"\s*:')
# Without NUL: a full disk leaves blocks of it in a text file.
_CONTROL = bytes(sorted(set(range(1, 32)) - {7, 8, 9, 10, 12, 13, 27}))


class Kind(StrEnum):
    """What a path can be; FOREIGN is named but not read."""

    RUN = "run directory"
    RECORDER = "recorder file"
    TIMELINE = "Horovod timeline"
    TEXT = "text"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Recognised:
    """A path and what it is; ``what`` says more where ``kind`` is FOREIGN."""

    path: Path
    kind: Kind
    what: str
    size_bytes: int = 0


def recognise_all(paths: Sequence[Path]) -> list[Recognised]:
    """Every file and run directory under some paths; patterns such as ``logs/*.txt`` are expanded.

    A folder that is no run directory stands for the run directories and files in it.

    Raises:
        UnreadableInputError: A path does not exist, or a folder holds nothing or far too much.
    """
    return list(dict.fromkeys(found for path in paths for found in _under(path)))


def recognise(path: Path) -> Recognised:
    """What one file or folder is.

    Raises:
        UnreadableInputError: It cannot be read.
    """
    if path.is_dir():
        return Recognised(path, Kind.RUN, str(Kind.RUN))
    try:
        head, tail, size = _ends(path)
    except OSError as error:
        raise UnreadableInputError(f"{path} cannot be read: {error.strerror or error}.") from error
    kind, what = _kind_of(head, tail)
    return Recognised(path, kind, what or str(kind), size)


def _under(path: Path) -> Iterator[Recognised]:
    if path.is_dir():
        yield from _in_folder(path)
    elif path.exists():
        yield recognise(path)
    else:
        matching = _matching(path)
        if not matching:
            raise _missing(path)
        for name in matching:
            yield from _under(name)


def _missing(path: Path) -> UnreadableInputError:
    if _is_pattern(path):
        return UnreadableInputError(f"No file matches {path}.")
    folder = path.parent
    if not folder.is_dir():
        existing = next(one for one in folder.parents if one.is_dir())
        absent = existing / folder.relative_to(existing).parts[0]
        return UnreadableInputError(f"{path} does not exist: there is no folder {absent}.")
    similar = difflib.get_close_matches(path.name, [one.name for one in _listed(folder)], n=3)
    return UnreadableInputError(
        f"{path} does not exist.",
        hint=f"Similar: {', '.join(str(folder / name) for name in similar)}" if similar else "",
    )


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _is_pattern(path: Path) -> bool:
    return re.search(r"[*?\[]", str(path)) is not None


def _matching(pattern: Path) -> list[Path]:
    if not _is_pattern(pattern):
        return []
    return sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))


def _in_folder(folder: Path) -> Iterator[Recognised]:
    if (folder / MANIFEST_NAME).is_file():
        yield recognise(folder)
        return
    files = _files_in(folder)
    if not files:
        raise UnreadableInputError(
            f"{folder} is not a run directory, and holds no file.",
            hint="Give the folder that `hvdprof bench` named, usually runs/<time>-<name>.",
        )
    yield from map(recognise, files)


def _files_in(folder: Path) -> list[Path]:
    """Files below a folder by name, run directories in it standing for what they hold."""
    try:
        runs = sorted(path.parent for path in folder.glob(f"*/{MANIFEST_NAME}"))
        hidden = ("/.", "__pycache__")
        files = [
            path
            for path in _at_most(folder.rglob("*"), folder)
            if path.is_file()
            and not any(part in str(path.relative_to(folder.parent)) for part in hidden)
            and not any(run in path.parents for run in runs)
        ]
    except OSError as error:
        raise UnreadableInputError(f"{folder} cannot be listed: {error.strerror}.") from error
    return [*runs, *sorted(files)]


def _at_most(paths: Iterable[Path], folder: Path) -> Iterator[Path]:
    for number, path in enumerate(paths):
        if number >= _MOST_FILES:
            raise UnreadableInputError(
                f"{folder} holds more than {_MOST_FILES} files.",
                hint="Name the files of one job, for example with a pattern.",
            )
        yield path


def _ends(path: Path) -> tuple[bytes, bytes, int]:
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(_BLOCK_BYTES)
        if head.startswith((_GZIP, _ZSTD)):
            stream.seek(0)
            return _unpacked(stream, size, head), b"", size
        stream.seek(max(size - _BLOCK_BYTES, 0))
        return head, stream.read(_BLOCK_BYTES), size


def _unpacked(stream: IO[bytes], size: int, head: bytes) -> bytes:
    """The first block of a compressed file; as it stands there where it cannot be unpacked."""
    chunks = Chunks(stream, size, chunk_bytes=_BLOCK_BYTES)
    chunks.more()
    text = chunks.data[: chunks.end].tobytes()
    return head if chunks.broken and not text.strip() else text


def _kind_of(head: bytes, tail: bytes) -> tuple[Kind, str]:
    # Where it cannot be unpacked, the reader of timelines says what is wrong with it.
    if head.startswith(_ZSTD):
        return Kind.TIMELINE, ""
    for magic, name in _BINARY_FORMATS:
        if head.startswith(magic):
            return Kind.FOREIGN, name
    both = head + b"\n" + tail
    if not both.strip():
        return Kind.FOREIGN, "an empty file"
    if _RECORDER.match(head):
        return Kind.RECORDER, ""
    if _PHASE.search(both):
        return _kind_of_trace(both)
    if head.strip(b" \t\r\n\xef\xbb\xbf") in (b"[", b"[]"):
        return Kind.TIMELINE, ""
    controls = len(both) - len(both.translate(None, delete=_CONTROL))
    if controls * 20 > len(both) or not both.strip(b"\0 \r\n"):
        return Kind.FOREIGN, "binary data of an unknown format"
    return Kind.TEXT, ""


def _kind_of_trace(text: bytes) -> tuple[Kind, str]:
    if _HOROVOD.search(text):
        return Kind.TIMELINE, ""
    if _KINETO.search(text):
        return Kind.FOREIGN, "a trace of the PyTorch profiler (Kineto), not Horovod's"
    if _THREADS.search(text):
        return Kind.FOREIGN, "a Chrome trace of another program, not Horovod's"
    return Kind.TIMELINE, ""
