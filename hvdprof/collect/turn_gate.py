"""The step boundary at which a rank of a resident launch waits for its turn.

Launches that are resident on one host together take turns: one runs, the others are stopped. All
ranks of a launch get the same number of steps, so that they stop at the same boundary and none is
left waiting in a collective. Each rank connects to the launching side, whose socket
``HVDPROF_TURNS`` names, writes a ``StandLine`` at each boundary, and reads a number of steps; 0
means that the segment has been measured long enough.
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Protocol, TypedDict

from hvdprof.collect.guarded_context import print_problem

TURNS = "HVDPROF_TURNS"

SETTLING_STEPS = 1
"""Steps at the begin of a turn that no result uses: other launches have used the caches since."""


class StandLine(TypedDict):
    """Where a rank stands: the next step of its segment, and the seconds per step before it."""

    rank: int
    segment: str
    step: int
    step_s: float


class Pausing(Protocol):
    """What measures this process by time, and stops doing so while others have their turns."""

    def pause(self) -> None:
        """Leave out what follows."""

    def resume(self) -> None:
        """Measure again."""


class TurnGate:
    """One rank's connection to the launching side.

    Args:
        address: The abstract Unix socket of the launch.
        rank: The rank.

    Attributes:
        is_lost: Whether the launching side has closed the connection.
        pausing: Pauses in the turns of others; raises nothing.

    Raises:
        OSError: No launching side listens there.
    """

    pausing: ClassVar[list[Pausing]] = []

    def __init__(self, address: str, rank: int) -> None:
        self.is_lost = False
        self._rank = rank
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(f"\0{address}")
        except OSError:
            self._socket.close()
            raise
        self._answers = self._socket.makefile("rb")

    def next_turn(self, segment: str, step: int, step_s: float) -> int:
        """Wait for the turn; its number of measured steps, which ``SETTLING_STEPS`` precede.

        0 when the segment has been measured long enough, or when the launching side is gone.

        Args:
            segment: The segment that runs.
            step: The number of its next step.
            step_s: Seconds per step in the turn before, or in the warm-up.
        """
        line: StandLine = {"rank": self._rank, "segment": segment, "step": step, "step_s": step_s}
        try:
            with self._paused():
                self._socket.sendall(json.dumps(line).encode() + b"\n")
                answer = self._answers.readline()
            problem = "" if answer else "hvdprof has closed the connection"
        except OSError as error:
            answer, problem = b"", str(error)
        if problem:
            self.is_lost = True
            print_problem(f"no further turns: {problem}")
        return int(answer or 0)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        for each in self.pausing:
            each.pause()
        try:
            yield
        finally:
            for each in self.pausing:
                each.resume()

    def close(self) -> None:
        """Leave the launching side."""
        self._answers.close()
        self._socket.close()


def turn_gate(rank: int, environment: Mapping[str, str] = os.environ) -> TurnGate | None:
    """The gate of a rank of a resident launch; None for a launch that has the host to itself.

    Raises:
        OSError: No launching side listens there.
    """
    address = environment.get(TURNS)
    return TurnGate(address, rank) if address else None
