"""``python -m hvdprof.launch.remote.live_files FOLDER``: recordings of this host, as they grow.

Standard input is a line with a token and with what the other side holds of each file, then a line
whenever the ranks are to know that they are watched, with the requests to them that are new by the
names of their files; its end ends this process. Standard output is
the token on a line, so that output of a login shell before it is skipped, then pieces of files.
"""

import contextlib
import json
import os
import re
import select
import signal
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from hvdprof.errors import StorageError, UnreadableInputError
from hvdprof.plain_text import printable
from hvdprof.rundir.json_codec import DAMAGE, decode, parse_json
from hvdprof.rundir.layout import REQUESTS, watched_mark
from hvdprof.rundir.rank_requests import Requests, read_requests, write_requests
from hvdprof.rundir.regular_file import END_BYTES, continues, open_regular
from hvdprof.rundir.written_file import open_run_file

LONGEST_HELLO = 1 << 22
SILENT_S = 30
"""Both sides say something every few seconds, and give up after as long without a word."""

WORD_S = 5.0
_LOOK_S = 0.5
_PIECE_BYTES = 1 << 18
_MOST_BEFORE_TOKEN = 1 << 20
_HEAD = struct.Struct(">HIQI")
"""Bytes of the name and of the content, where it begins in the file, checksum of both."""

_NAME = re.compile(
    r"(?:rank|lines|samples)-\d{1,7}(?:-worker-\d{1,4})?\.jsonl|"
    r"event-\d{1,9}-rank-\d{1,7}(?:-worker-\d{1,4})?(?:\.jsonl|\.stack|\.pt\.trace\.json\.gz)",
    re.ASCII,
)
_REQUESTS = re.compile(r"request-\d{1,7}\.json", re.ASCII)
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """What was added to a file; ``begin`` 0 begins it anew. An empty name is a sign of life."""

    name: str
    begin: int
    content: bytes

    def packed(self) -> bytes:
        """The piece as it is sent."""
        name = self.name.encode()
        checksum = zlib.crc32(name + self.content)
        return _HEAD.pack(len(name), len(self.content), self.begin, checksum) + name + self.content


@dataclass(slots=True)
class PieceReader:
    """Takes what comes from a host apart, in parts of any size; holds one piece at most.

    Args:
        token: What comes before the first piece, on a line of its own.
    """

    token: str
    has_begun: bool = False
    _carried: bytes = b""
    _skipped: int = 0

    def take(self, received: bytes) -> Iterator[Piece]:
        """The pieces that are complete now.

        Raises:
            UnreadableInputError: The other side does not know the token, or a piece is damaged.
        """
        self._carried += received
        while not self.has_begun:
            line, end, rest = self._carried.partition(b"\n")
            if self._skipped + len(line) > _MOST_BEFORE_TOKEN:
                raise UnreadableInputError("it does not give the token of this connection")
            if not end:
                return
            self._skipped += len(line)
            self._carried = rest
            self.has_begun = line.rstrip(b"\r") == self.token.encode()
        while (piece := self._next()) is not None:
            yield piece

    def _next(self) -> Piece | None:
        if len(self._carried) < _HEAD.size:
            return None
        name_size, size, begin, checksum = _HEAD.unpack_from(self._carried)
        if name_size > _LONGEST_NAME or size > _PIECE_BYTES:
            raise UnreadableInputError("a piece is larger than any that is sent")
        end = _HEAD.size + name_size + size
        if len(self._carried) < end:
            return None
        packed, self._carried = self._carried[_HEAD.size : end], self._carried[end:]
        name = packed[:name_size].decode("ascii", "replace")
        if zlib.crc32(packed) != checksum or begin >= 1 << 62:
            raise UnreadableInputError("a piece is damaged")
        if name and not is_recording(name):
            raise UnreadableInputError(f"{printable(name)} is no file that ranks record")
        return Piece(name, begin, packed[name_size:])


def is_recording(name: str) -> bool:
    """Whether a file of that name holds windows or sampled lines of a rank, or what it answers."""
    return _NAME.fullmatch(name) is not None


@dataclass(slots=True)
class Held:
    """How much of a file has been copied, and the last bytes of that."""

    size: int = 0
    end: bytes = b""

    def add(self, content: bytes) -> None:
        """Note that more was copied."""
        self.size += len(content)
        self.end = (self.end + content[-END_BYTES:])[-END_BYTES:]


@dataclass(slots=True)
class GrowingFiles:
    """The files of a folder; ``held`` is what the other side has of each, by name."""

    folder: Path
    held: dict[str, Held] = field(default_factory=dict)

    def pieces(self) -> Iterator[Piece]:
        """A piece of each file that has more; none while the folder cannot be read."""
        try:
            with os.scandir(self.folder) as entries:
                sizes = {
                    one.name: one.stat().st_size
                    for one in entries
                    if is_recording(one.name) and one.is_file(follow_symlinks=False)
                }
        except OSError:
            return
        for name, size in sizes.items():
            if size != self.held.setdefault(name, Held()).size:
                yield from self._piece(name, size)

    def _piece(self, name: str, size: int) -> Iterator[Piece]:
        held = self.held[name]
        try:
            with open_regular(self.folder / name) as stream:
                if size < held.size or not continues(stream, held.size, held.end):
                    held = self.held[name] = Held()
                stream.seek(held.size)
                content = stream.read(_PIECE_BYTES)
        except OSError:
            # Not readable just now: the next look continues.
            return
        yield Piece(name, held.size, content)
        held.add(content)


@dataclass(slots=True)
class Words:
    """The lines of standard input, none of which stays in a buffer of Python's."""

    descriptor: int
    _rest: bytes = b""

    def lines(self) -> list[bytes]:
        """The lines that are complete now; waits for input.

        Raises:
            EOFError: It has ended, or holds a line that is too long.
        """
        received = os.read(self.descriptor, 1 << 16)
        if not received or len(self._rest) > LONGEST_HELLO:
            raise EOFError
        *whole, self._rest = (self._rest + received).split(b"\n")
        return whole


def main(arguments: list[str] | None = None) -> int:
    """Send what ranks record until standard input ends; the exit code."""
    (where,) = sys.argv[1:] if arguments is None else arguments
    words = Words(sys.stdin.fileno())
    try:
        while not (lines := words.lines()):
            pass
        hello, *more = lines
        given = parse_json(hello)
        token = str(given["token"])
        held = {name: Held(size, bytes.fromhex(end)) for name, (size, end) in given["held"].items()}
    except (*DAMAGE, EOFError):
        sys.stderr.write("standard input does not begin with a token\n")
        return UnreadableInputError.exit_code
    # Beside ranks that compute, and no longer than the other side is heard: also where writing
    # to it blocks.
    os.nice(10)
    signal.alarm(SILENT_S)
    out = sys.stdout.buffer
    out.write(f"{token}\n".encode())
    try:
        _send(GrowingFiles(Path(where), held), words, more, out)
    except BrokenPipeError:
        # The other side has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        with contextlib.suppress(OSError):
            watched_mark(Path(where)).unlink()
    return 0


def _send(files: GrowingFiles, words: Words, lines: list[bytes], out: IO[bytes]) -> None:
    _mark(files.folder)
    while True:
        for line in filter(None, lines):
            # Write requests where ranks look for them; what is damaged or of another name is none.
            with contextlib.suppress(*DAMAGE, OSError, StorageError):
                for name, requests in parse_json(line).items():
                    if _REQUESTS.fullmatch(name):
                        write_requests(
                            files.folder / name,
                            decode(Requests, {"requests": requests}, name).requests,
                        )
        lines = []
        for piece in (*files.pieces(), Piece("", 0, b"")):
            out.write(piece.packed())
        out.flush()
        if select.select([words.descriptor], [], [], _LOOK_S)[0]:
            try:
                lines = words.lines()
            except EOFError:
                return
            signal.alarm(SILENT_S)
            _mark(files.folder)


def new_requests(folder: Path, sent: dict[str, int]) -> bytes:
    """The requests of a folder that have changed, as a line; empty without any.

    Args:
        folder: The folder of the recorder files.
        sent: When each that was given back had changed; is brought up to date.
    """
    found = {}
    for path in folder.glob(REQUESTS):
        with contextlib.suppress(OSError, ValueError):
            changed = path.stat().st_mtime_ns
            if sent.get(path.name) != changed:
                sent[path.name] = changed
                found[path.name] = [asdict(one) for one in read_requests(path)]
    return json.dumps(found).encode() + b"\n" if found else b""


def _mark(folder: Path) -> None:
    # Where it cannot be written, windows stay as long as without a watcher.
    with contextlib.suppress(OSError), open_run_file(watched_mark(folder), "w") as mark:
        mark.write(f"{time.time_ns()}\n")


if __name__ == "__main__":
    sys.exit(main())
