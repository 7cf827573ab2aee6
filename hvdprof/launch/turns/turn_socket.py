"""The launching side of the gates of a resident launch: where its ranks stand, and their turns."""

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import uuid
from dataclasses import dataclass
from typing import cast

from hvdprof.collect.turn_gate import StandLine
from hvdprof.launch.processes.process_tree import with_descendants

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer, as ``SO_PEERCRED`` gives them."""


@dataclass(frozen=True, slots=True)
class TurnStanding:
    """The step boundary at which all ranks of a launch wait.

    ``step`` is their next one; ``step_s`` the length of the latest steps of the slowest rank, NaN
    where nothing is known of it.
    """

    segment: str
    step: int
    step_s: float


class TurnSocket:
    """Listens for the ranks of one launch.

    Args:
        size: The number of ranks.
    """

    def __init__(self, size: int) -> None:
        self.address = f"hvdprof-turns-{uuid.uuid4().hex}"
        self._size = size
        self._ranks: dict[int, _Rank] = {}
        self._stopped: list[int] = []
        self._selector = selectors.DefaultSelector()
        # A name without a file: nothing is left behind, even after SIGKILL.
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(f"\0{self.address}")
        self._listening.listen(size)
        self._listening.setblocking(False)
        self._selector.register(self._listening, selectors.EVENT_READ)

    def standing(self) -> TurnStanding | None:
        """Where all ranks wait; None while one runs, or has not connected."""
        lines = [rank.line for rank in self._ranks.values() if rank.line is not None]
        if len(lines) < self._size or len({(line["segment"], line["step"]) for line in lines}) > 1:
            return None
        slowest_s = max(line["step_s"] for line in lines)
        return TurnStanding(lines[0]["segment"], lines[0]["step"], slowest_s)

    @property
    def num_waiting(self) -> int:
        """Ranks that wait for a turn, at one step boundary or several."""
        return sum(rank.line is not None for rank in self._ranks.values())

    def process_ids(self) -> list[int]:
        """The processes of the ranks that are connected, and what these have started."""
        return with_descendants(rank.process_id for rank in self._ranks.values())

    def wait(self, seconds: float) -> None:
        """Wait for the next word of a rank, at most that long, and take all that is there."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._listening:
                self._accept()
            else:
                self._read(self._ranks[key.fd])

    def stop_ranks(self) -> None:
        """Stop the ranks with all that they have started, where they are.

        Horovod's threads poll otherwise, and workers of a data loader fetch ahead.
        """
        self._stopped = self.process_ids()
        self._signal(signal.SIGSTOP)

    def resume_ranks(self) -> None:
        """Let the processes that were stopped run again."""
        self._signal(signal.SIGCONT)
        # Their numbers may belong to other processes later.
        self._stopped = []

    def give_turn(self, num_steps: int) -> None:
        """Let the ranks train that many steps; 0 ends their segment."""
        for rank in self._ranks.values():
            rank.answer(num_steps)

    def release(self, num_steps: int) -> None:
        """Let the ranks that wait run on, each by itself; end those that have done so.

        Args:
            num_steps: The steps that each of them is given.
        """
        for rank in self._ranks.values():
            if rank.line is not None:
                rank.answer(0 if rank.is_released else num_steps)
                rank.is_released = True

    def first_boundary(self) -> int | None:
        """The earliest step before which a rank waits; None where none does."""
        lines = (rank.line for rank in self._ranks.values())
        return min((line["step"] for line in lines if line is not None), default=None)

    def close(self) -> None:
        """Stop listening."""
        for rank in self._ranks.values():
            rank.connection.close()
        self._listening.close()
        self._selector.close()

    def _accept(self) -> None:
        connection, _ = self._listening.accept()
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process_id, user_id, _ = _CREDENTIALS.unpack(packed)
        # A process of another namespace has the number 0 here, which stands for this one's group.
        if user_id != os.geteuid() or process_id <= 0:
            connection.close()
            return
        self._ranks[connection.fileno()] = _Rank(connection, process_id)
        self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, rank: "_Rank") -> None:
        try:
            received = rank.connection.recv(65536)
        except OSError:
            received = b""
        if received:
            rank.take(received)
            return
        del self._ranks[rank.connection.fileno()]
        self._selector.unregister(rank.connection)
        rank.connection.close()

    def _signal(self, number: signal.Signals) -> None:
        for process_id in self._stopped:
            try:
                os.kill(process_id, number)
            except (ProcessLookupError, PermissionError):
                # It has ended, or became another user's, as below sudo: it runs on.
                continue


@dataclass(slots=True)
class _Rank:
    connection: socket.socket
    process_id: int
    line: StandLine | None = None
    is_released: bool = False
    _carried: bytes = b""

    def answer(self, num_steps: int) -> None:
        self.line = None
        # It may just have died: its launcher ends then, and says why.
        with contextlib.suppress(OSError):
            self.connection.sendall(b"%d\n" % num_steps)

    def take(self, received: bytes) -> None:
        *lines, self._carried = (self._carried + received).split(b"\n")
        for line in lines:
            self.line = cast(StandLine, json.loads(line))
