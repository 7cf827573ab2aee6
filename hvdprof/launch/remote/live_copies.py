"""Recordings of hosts that do not see the run directory: copied there while a watcher follows.

So a watcher reads all ranks in one folder, wherever it was started. One remote shell per host
carries them; what ranks wrote is fetched whole afterwards, as without a watcher.
"""

import contextlib
import json
import os
import secrets
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, cast

from hvdprof import units
from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.launch.plan.workload import python_program
from hvdprof.launch.remote.live_files import (
    SILENT_S,
    WORD_S,
    Held,
    Piece,
    PieceReader,
    new_requests,
)
from hvdprof.launch.remote.pass_files import MAX_BYTES
from hvdprof.launch.remote.remote_shell import HostShell, last_line
from hvdprof.rundir.layout import watched_mark
from hvdprof.rundir.written_file import file_mode, open_descriptor, open_whole

_MODULE = "hvdprof.launch.remote.live_files"
_FORGET_S = 30.0
_LOOK_S = 1.0
_PAUSE_S = 3.0
_READ_BYTES = 1 << 16
_END_S = 3.0


class LiveCopies:
    """Copies the recordings of other hosts while the mark of a watcher in their folder changes.

    Args:
        folder: The folder of the recorder files, the same path on every host.
        names: The hosts that do not see it.
        shell: How they are reached.
        clock: Seconds of a monotonic clock.

    Attributes:
        problems: Hosts to which a connection was lost or never made, with the latest reason; known
            once they are closed.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        shell: HostShell,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._names, self._shell, self._clock = folder, names, shell, clock
        self._mark = watched_mark(folder)
        self._changed = 0
        self._looked_s = self._seen_s = -_FORGET_S
        self._folders: dict[str, CopiedFolder] = {}
        self._copies: list[_HostCopy] = []
        self.problems: dict[str, str] = {}

    def look(self) -> None:
        """Begin to copy where a watcher is there, and end where it has gone (takes seconds)."""
        now_s = self._clock()
        if not self._names or now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        with contextlib.suppress(OSError):
            changed = self._mark.stat().st_mtime_ns
            if changed != self._changed:
                self._changed, self._seen_s = changed, now_s
        if now_s - self._seen_s >= _FORGET_S:
            self.close()
        elif not self._copies:
            for name in self._names:
                files = self._folders.setdefault(name, CopiedFolder(self._folder))
                self._copies.append(_HostCopy(name, self._shell, files))

    def close(self) -> None:
        """End the copies; no file changes any more."""
        for copy in self._copies:
            copy.stop()
        for copy in self._copies:
            copy.join()
            if copy.problem:
                self.problems[copy.host] = copy.problem
        self._copies.clear()


class CopiedFolder:
    """The copies of the files of one host; a file that another has made there is left alone.

    Attributes:
        held: How much of each file is there, by name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: dict[str, Held] = {}
        self._left_bytes = MAX_BYTES

    def write(self, piece: Piece) -> None:
        """Add a piece to its copy.

        Raises:
            UnreadableInputError: It does not follow what is there, is of a file that is no copy of
                this host's, or all are more than ``MAX_BYTES``.
            StorageError, OSError: It cannot be written.
        """
        path, held = self.folder / piece.name, self.held.get(piece.name)
        is_other = path.exists() if held is None else piece.begin not in (0, held.size)
        if is_other or (held is None and piece.begin):
            raise UnreadableInputError(f"{piece.name} does not continue the copy of that name")
        self._left_bytes -= len(piece.content)
        if self._left_bytes < 0:
            limit = units.byte_size(MAX_BYTES)
            raise UnreadableInputError(f"its recordings are more than {limit}")
        if held is None or not piece.begin:
            # Under another name until it is whole, so that readers notice another file.
            with open_whole(path, binary=True, mode=file_mode(path), is_copy=True) as file:
                file.write(piece.content)  # type: ignore[arg-type]
            self.held[piece.name] = held = Held()
        else:
            with os.fdopen(open_descriptor(path, os.O_RDWR), "r+b") as file:
                file.seek(piece.begin)
                file.write(piece.content)
        held.add(piece.content)


class _HostCopy(threading.Thread):
    """One connection to a host, begun again where it ends, until it is stopped.

    ``problem`` says why the latest one was lost; empty where none was.
    """

    def __init__(self, name: str, shell: HostShell, files: CopiedFolder) -> None:
        super().__init__(name="hvdprof live copy", daemon=True)
        self.host, self.problem = name, ""
        self._shell, self._files = shell, files
        self._stopped = threading.Event()
        self.start()

    def stop(self) -> None:
        """Let it end within a moment."""
        self._stopped.set()

    def run(self) -> None:
        """Copy, and connect again."""
        while not self._stopped.is_set():
            try:
                self._copy()
            except HvdprofError as error:
                self.problem = error.message
            except (OSError, subprocess.SubprocessError) as error:
                self.problem = str(error)
            self._stopped.wait(_PAUSE_S)

    def _copy(self) -> None:
        token = secrets.token_hex(16)
        command = self._shell.command(self.host, python_program(_MODULE, str(self._files.folder)))
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
            )
            try:
                self._follow(process, token)
            finally:
                _end(process)
            errors.seek(0)
            printed = last_line(errors.read(_READ_BYTES))
        if not self._stopped.is_set():
            raise UnreadableInputError(printed or "the connection has ended")

    def _follow(self, process: "subprocess.Popen[bytes]", token: str) -> None:
        """Copy what comes, until it ends."""
        given, sent = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
        held = {name: (one.size, one.end.hex()) for name, one in self._files.held.items()}
        unsent = json.dumps({"token": token, "held": held}).encode() + b"\n"
        os.set_blocking(given.fileno(), False)
        pieces = PieceReader(token)
        heard_s = word_s = looked_s = time.monotonic()
        sent_requests: dict[str, int] = {}
        while not self._stopped.is_set():
            now_s = time.monotonic()
            if now_s - heard_s > SILENT_S:
                raise UnreadableInputError(f"no answer for {units.seconds(now_s - heard_s)}")
            if now_s - word_s > WORD_S:
                unsent, word_s = unsent or b"\n", now_s
            if now_s - looked_s > _LOOK_S and not unsent:
                unsent, looked_s = new_requests(self._files.folder, sent_requests), now_s
            try:
                # Nothing is written to a full pipe: the other side does not read.
                unsent = unsent[given.write(unsent) or 0 :] if unsent else b""
            except BrokenPipeError:
                return
            if select.select([sent], [], [], _LOOK_S)[0]:
                received = sent.read(_READ_BYTES)
                if not received:
                    return
                for piece in pieces.take(received):
                    heard_s = now_s
                    if piece.name:
                        self._files.write(piece)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a remote shell; what it runs there ends as its standard input does."""
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            cast(IO[bytes], pipe).close()
    for end in (process.terminate, process.kill):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
            return
        end()
    process.wait()
