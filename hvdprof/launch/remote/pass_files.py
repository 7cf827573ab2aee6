"""``python -m hvdprof.launch.remote.pass_files``: files of a pass as one stream, to a host or back.

    put FOLDER           unpacks what comes on standard input into the folder of a pass
    get FOLDER NAMES     packs what its ranks have written there onto standard output

A stream begins with a marked line that holds length and digest of what follows, a compressed tar
archive: output of a login shell before it is skipped, and a cut stream is refused.
"""

import hashlib
import re
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from hvdprof import units
from hvdprof.errors import HvdprofError, StorageError, UnreadableInputError
from hvdprof.plain_text import printable
from hvdprof.rundir.layout import PassPaths, is_of_watcher
from hvdprof.rundir.regular_file import check_relative
from hvdprof.rundir.written_file import file_mode, make_run_folders, open_whole

MAX_BYTES = 8_000_000_000
"""More than this is not fetched: the user copies a pass of so many bytes."""

_HEAD = re.compile(rb"^hvdprof-files (\d+) ([0-9a-f]{64})$")
_MOST_BEFORE_HEAD = 1_000
_BLOCK_BYTES = 1 << 20


def written_folders(paths: PassPaths) -> tuple[Path, ...]:
    """The folders of a pass that ranks write into, on any host."""
    return (
        paths.recorder_folder,
        paths.timeline("").parent,
        paths.nccl_folder,
        paths.watch_folder,
        paths.flight_folder,
    )


def pack(folder: Path, files: Sequence[Path], out: IO[bytes]) -> None:
    """Write files of a folder as one stream.

    Raises:
        StorageError: They are more than ``MAX_BYTES``.
    """
    total = sum(path.stat().st_size for path in files)
    if total > MAX_BYTES:
        raise StorageError(
            f"{folder} holds {units.byte_size(total)}, more than is fetched "
            f"({units.byte_size(MAX_BYTES)})",
            hint="Copy it by hand.",
        )
    with tempfile.TemporaryFile() as packed:
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
            for path in files:
                _add(archive, path, path.relative_to(folder).as_posix())
        size = packed.tell()
        packed.seek(0)
        digest = hashlib.file_digest(packed, "sha256").hexdigest()
        packed.seek(0)
        out.write(f"hvdprof-files {size} {digest}\n".encode())
        shutil.copyfileobj(packed, out, _BLOCK_BYTES)
        out.flush()


def unpack(stream: IO[bytes], folder: Path, allowed: Sequence[Path] | None = None) -> int:
    """Write the files of a stream into a folder, once it is checked to be whole; their number.

    Args:
        stream: The stream, seekable.
        folder: Where to.
        allowed: Folders below it that files may go to; any when not given.

    Raises:
        UnreadableInputError: The stream is not whole, unpacks to more than ``MAX_BYTES``, or holds
            a link, a device or a file for elsewhere.
        StorageError: A file could not be written.
    """
    _to_archive(stream)
    number = 0
    try:
        with tarfile.open(fileobj=stream, mode="r:gz") as archive:
            left = MAX_BYTES
            for member in archive:
                # A link would be followed to another member, or out of the archive.
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    raise UnreadableInputError(f"{printable(member.name)} is no regular file")
                left -= member.size
                if left < 0:
                    raise UnreadableInputError(
                        f"the files unpack to more than {units.byte_size(MAX_BYTES)}"
                    )
                target = _target(folder, member.name, allowed)
                mode = file_mode(target)
                with open_whole(target, binary=True, mode=mode, is_copy=True) as file:
                    shutil.copyfileobj(content, file, _BLOCK_BYTES)  # type: ignore[misc]
                number += 1
    except (tarfile.TarError, EOFError, ValueError, zlib.error) as error:
        raise UnreadableInputError(f"the files cannot be unpacked: {error}") from error
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """Put or get; the exit code."""
    verb, where, *names = list(sys.argv[1:] if arguments is None else arguments)
    folder = Path(where)
    try:
        if verb == "put":
            make_run_folders(folder)
            with tempfile.TemporaryFile() as stream:
                shutil.copyfileobj(sys.stdin.buffer, stream, _BLOCK_BYTES)
                stream.seek(0)
                unpack(stream, folder)
            for written in written_folders(PassPaths(folder)):
                make_run_folders(written)
        else:
            pack(folder, sorted(_files(folder, names)), sys.stdout.buffer)
    except HvdprofError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"{where}: {error.strerror or error}\n")
        return StorageError.exit_code
    return 0


def _files(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        for path in (folder / name).rglob("*"):
            if path.is_file() and not path.is_symlink() and not is_of_watcher(path):
                yield path


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    with path.open("rb") as file:
        member = tarfile.TarInfo(name)
        # A file that still grows counts as it is now.
        file.seek(0, 2)
        member.size = file.tell()
        file.seek(0)
        archive.addfile(member, file)


def _to_archive(stream: IO[bytes]) -> None:
    """Go to the begin of the archive, once it is checked to be whole."""
    found = None
    for _ in range(_MOST_BEFORE_HEAD):
        line = stream.readline()
        found = _HEAD.match(line.rstrip(b"\n"))
        if found or not line:
            break
    if found is None:
        raise UnreadableInputError("no files came back")
    begin, size = stream.tell(), int(found[1])
    digest = hashlib.sha256()
    while block := stream.read(_BLOCK_BYTES):
        digest.update(block)
    if stream.tell() - begin != size or digest.hexdigest() != found[2].decode():
        raise UnreadableInputError("the files did not come back whole")
    stream.seek(begin)


def _target(folder: Path, name: str, allowed: Sequence[Path] | None) -> Path:
    try:
        check_relative(name, "file")
    except ValueError as error:
        raise UnreadableInputError(f"{printable(name)} is no file that ranks write") from error
    target = folder.joinpath(*PurePosixPath(name).parts)
    if allowed is not None and target.parent not in allowed:
        raise UnreadableInputError(f"{printable(name)} is no file that ranks write")
    return target


if __name__ == "__main__":
    sys.exit(main())
