"""The launching side of a resident launch's gates: where its ranks stand, their turns, how long."""

import contextlib
import json
import math
import os
import selectors
import signal
import socket
import struct
import time
import uuid
from dataclasses import dataclass
from typing import cast

from hvdprof.collect.turn_gate import SETTLING_STEPS, StandLine
from hvdprof.launch.processes.marked_processes import with_descendants
from hvdprof.rundir.plan import Segment

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer, as ``SO_PEERCRED`` gives them."""

APART_S = 30.0
"""Ranks that wait for others at a boundary for longer do not stop at the same step.

Half the time after which a stall is reported where that is shorter: the ranks that do not stop wait
in a collective for those at the boundary, which is no stall of the script.
"""

LEAST_APART_S = 2.0
"""Ranks that stop at the same step arrive within this time, however early stalls are reported."""

MIN_STEPS_PER_TURN = 3
"""Fewer would leave most of a turn to the steps at its begin that no result uses."""

TURNS_OF_A_SEGMENT = 4
"""A number of steps is divided into as many turns, where these are not too long: A B B A."""

WITHOUT_END = 10**9
"""Steps that no training makes."""

MIN_TURNS = 2
MIN_STEPS = 10


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
    """Listens for the ranks of one launch."""

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
        """Let the ranks that wait run on, each by itself; end those that have done so."""
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


def resident_warn_s(warn_s: float) -> float:
    """Seconds after which a stall of a launch that takes turns is reported, 0 for never.

    At least the time in which ranks turn out not to stop together: some then wait for others.

    Args:
        warn_s: Seconds that the user asked for, 0 for never.
    """
    return max(warn_s, 2 * LEAST_APART_S) if warn_s else 0.0


class ApartWatch:
    """Watches for how long a part of the ranks has waited for the others at a boundary."""

    def __init__(self, warn_s: float) -> None:
        self._longest_s = min(APART_S, resident_warn_s(warn_s) / 2 or APART_S)
        self._since_s: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether ranks wait for others now."""
        return self._since_s is not None

    def end(self) -> None:
        """All ranks stand together."""
        self._since_s = None

    def is_over(self, num_waiting: int) -> bool:
        """Look once more; whether they have waited for too long."""
        if not num_waiting:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = time.monotonic()
        return self._since_s is not None and time.monotonic() - self._since_s > self._longest_s


@dataclass(slots=True)
class SegmentTurns:
    """The turns that a segment of a launch has had.

    ``turn_s`` is the length that a turn aims at.
    """

    segment: Segment
    turn_s: float
    num_turns: int = 0
    num_steps: int = 0
    measured_s: float = 0.0
    _latest_s: float = 0.0

    def next_steps(self, step_s: float) -> int:
        """The measured steps of the next turn; 0 where the segment needs no further turn."""
        if self._is_enough():
            return 0
        wanted = round(self.turn_s / step_s) if step_s > 0 else MIN_STEPS_PER_TURN
        wanted = max(wanted, MIN_STEPS_PER_TURN)
        limit = self.segment.num_steps
        if limit is None:
            return wanted
        several = max(math.ceil(limit / TURNS_OF_A_SEGMENT), MIN_STEPS_PER_TURN)
        return min(wanted, several, limit - self.num_steps)

    @property
    def is_unbounded(self) -> bool:
        """Whether only the training itself ends the segment."""
        return self.segment.num_steps is None and self.segment.max_seconds is None

    def steps_to_end(self) -> int:
        """The steps that are left where no further turns are to come."""
        limit = self.segment.num_steps
        if limit is None:
            return WITHOUT_END
        return max(limit - self.num_steps - SETTLING_STEPS, 1)

    def add(self, num_steps: int, seconds: float) -> None:
        """A turn is over."""
        self.num_turns += 1
        self.num_steps += num_steps
        self.measured_s += seconds
        self._latest_s = seconds

    def _is_enough(self) -> bool:
        limit, seconds = self.segment.num_steps, self.segment.max_seconds
        if limit is not None and self.num_steps >= limit:
            return True
        if seconds is None or self.num_turns < MIN_TURNS or self.num_steps < MIN_STEPS:
            return False
        # Half a turn too long is as near as half a turn too short.
        return self.measured_s + self._latest_s / 2 >= seconds
