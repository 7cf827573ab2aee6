"""Standard input, and pipes that a shell opens (``<(command)``), copied to files."""

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.sources.workspace import Workspace
from hvdprof.rundir.file_names import show_as
from hvdprof.rundir.regular_file import irregular_kind
from hvdprof.units import byte_size

_STDIN = "standard input"
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,6})")
_PIECE_BYTES = 1 << 20


def descriptor_of(path: Path) -> int | None:
    """The descriptor that a path names: 0 for ``-``; ``None`` for the path of a file."""
    if str(path) in ("-", "/dev/stdin"):
        return 0
    match = _DESCRIPTOR.fullmatch(str(path))
    return int(match[1]) if match else None


def file_of_stream(path: Path, descriptor: int, workspace: Workspace) -> Path:
    """A regular file with what a stream holds: its copy, or the file that was redirected to it.

    Args:
        path: As the user named it.
        descriptor: Its descriptor.
        workspace: Receives the copy.

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
