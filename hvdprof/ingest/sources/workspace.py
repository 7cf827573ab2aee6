"""A temporary folder for the files of archives, and for streams and pipes copied to files."""

import atexit
import codecs
import os
import re
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Never, Self

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.sources.listing import missing
from hvdprof.rundir.regular_file import (
    irregular_kind,
    open_regular,
    show_as,
    show_as_they_are,
    shown_name,
    unreadable,
)
from hvdprof.units import byte_size

MOST_BYTES = 4_000_000_000
"""So much of a stream or an archive is written to disk at most."""

_LEFT_FREE_BYTES = 500_000_000
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

_STDIN = "standard input"
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,6})")
_PIECE_BYTES = 1 << 20

MOST_TEXT_BYTES = 16_000_000


class _Folders:
    """The number of folders that this process has to remove yet, at its end at the latest."""

    num_open = 0
    lock = threading.Lock()


class Workspace:
    """A folder that is made when it is needed first, and removed when the block ends."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._num_parts = 0

    def __enter__(self) -> Self:
        """Start; nothing is written yet."""
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Remove the folder, unless ``keep`` was called."""
        if self._folder is not None:
            show_as_they_are(Path(self._folder.name))
            try:
                self._folder.cleanup()
            finally:
                _release_signals()

    def new_folder(self) -> Path:
        """A new empty folder."""
        if self._folder is None:
            _catch_signals()
            try:
                self._folder = tempfile.TemporaryDirectory(prefix="hvdprof-")
            except OSError:
                _release_signals()
                raise
        self._num_parts += 1
        folder = Path(self._folder.name) / str(self._num_parts)
        folder.mkdir(mode=0o700)
        return folder

    def most_bytes(self) -> int:
        """The bytes that may be written now: a limit, or less where the disk has less room."""
        free = shutil.disk_usage(tempfile.gettempdir()).free
        return max(min(MOST_BYTES, free - _LEFT_FREE_BYTES), 0)

    def holds(self, path: Path) -> bool:
        """Whether a path lies in this folder."""
        return self._folder is not None and path.is_relative_to(self._folder.name)

    def part_of(self, path: Path) -> Path | None:
        """The folder of ``new_folder`` in which a path lies; None where it lies elsewhere."""
        if self._folder is None:
            return None
        top = Path(self._folder.name)
        return next((parent for parent in path.parents if parent.parent == top), None)

    def keep(self) -> None:
        """Remove the folder at the end of the process, for its files are still needed.

        The signals that end the process stay caught until then.
        """
        if self._folder is not None:
            atexit.register(self._folder.cleanup)
            self._folder = None


def _catch_signals() -> None:
    """Let signals that would leave the folder behind end the process as an exception does."""
    with _Folders.lock:
        _Folders.num_open += 1
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            # Nohup has SIGHUP ignored, and the program may have handlers of its own.
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end_in_order)


def _release_signals() -> None:
    """Leave the signals to the system again after the last folder, where the thread may do so."""
    with _Folders.lock:
        _Folders.num_open -= 1
        if _Folders.num_open or threading.current_thread() is not threading.main_thread():
            return
    for number in _SIGNALS:
        if signal.getsignal(number) is _end_in_order:
            signal.signal(number, signal.SIG_DFL)


def _end_in_order(number: int, frame: FrameType | None) -> Never:
    raise SystemExit(128 + number)


def descriptor_of(path: Path) -> int | None:
    """The descriptor that a path names: 0 for ``-``; ``None`` for the path of a file."""
    if str(path) in ("-", "/dev/stdin"):
        return 0
    match = _DESCRIPTOR.fullmatch(str(path))
    return int(match[1]) if match else None


def file_of_stream(path: Path, descriptor: int, workspace: Workspace) -> Path:
    """A regular file with what a stream holds: its copy, or the file that was redirected to it.

    Raises:
        UnreadableInputError: It is not open, a terminal or a device, or holds too much.
    """
    name = _STDIN if descriptor == 0 else str(path)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return _redirected(descriptor)
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            kind = "a terminal" if os.isatty(descriptor) else irregular_kind(mode)
            raise UnreadableInputError(
                f"{name} is {kind}, not a file or a pipe.",
                hint="Name a file, or pipe one: zcat job.log.gz | hvdprof analyze -",
            )
    except OSError as error:
        raise _unreadable(name, error) from error
    try:
        return _copied(name, descriptor, workspace)
    except OSError as error:
        raise UnreadableInputError(
            f"{name} cannot be copied to the temporary folder {tempfile.gettempdir()}: "
            f"{error.strerror or error}.",
            hint="Set TMPDIR to a folder with more room.",
        ) from error


def _unreadable(name: str, error: OSError) -> UnreadableInputError:
    return UnreadableInputError(f"{name} cannot be read: {error.strerror or error}.")


def _redirected(descriptor: int) -> Path:
    """The file that a shell redirected; by the descriptor where its name is gone."""
    opened = Path(f"/dev/fd/{descriptor}")
    try:
        named = opened.resolve(strict=True)
        return named if named.samefile(opened) else opened
    except OSError:
        return opened


def _copied(name: str, descriptor: int, workspace: Workspace) -> Path:
    most = workspace.most_bytes()
    path = workspace.new_folder() / "stream"
    show_as(path, name)
    size = 0
    with path.open("xb") as file:
        for piece in _pieces(name, descriptor):
            size += len(piece)
            if size > most:
                raise UnreadableInputError(
                    f"{name} holds more than {byte_size(most)}, the limit for a stream.",
                    hint="Write it to a file, and name the file.",
                )
            file.write(piece)
    return path


def _pieces(name: str, descriptor: int) -> Iterator[bytes]:
    try:
        while piece := os.read(descriptor, _PIECE_BYTES):
            yield piece
    except OSError as error:
        raise _unreadable(name, error) from error


def small_text(path: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 with its mark; other bytes are replaced.

    Args:
        path: The file; ``-`` is standard input.

    Raises:
        UnreadableInputError: It cannot be read, is no file or pipe, or holds far too much.
    """
    with Workspace() as workspace:
        descriptor = descriptor_of(path)
        if descriptor is not None:
            path = file_of_stream(path, descriptor, workspace)
        try:
            with open_regular(path) as file:
                content = file.read(MOST_TEXT_BYTES + 1)
        except FileNotFoundError as error:
            raise missing(path) from error
        except OSError as error:
            raise unreadable(path, error) from error
        if len(content) > MOST_TEXT_BYTES:
            raise UnreadableInputError(
                f"{shown_name(path)} holds more than {byte_size(MOST_TEXT_BYTES)}, which is no "
                "table of ranks and speeds."
            )
    # Spreadsheets write "Unicode text" so.
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8-sig", errors="replace")
