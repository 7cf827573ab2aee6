"""What a rank without progress writes about itself, as ``hvdprof.collect.watchdog`` writes it."""

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from hvdprof.launch.processes.process_state import is_stopped, state_letter

RUNS, LEFT, ENDED, ABSENT, GONE, STOPPED, SILENT = (
    "runs",
    "left",
    "ended",
    "absent",
    "gone",
    "stopped",
    "silent",
)
"""States of a rank that others wait for, as ``stalls.jsonl`` names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """The latest state of one rank.

    ``still_s`` are the seconds without any change, ``in_step_s`` those since its last step ended;
    both are 0 while its steps take as long as usual. ``waits`` says that the rank waits in a
    collective, and ``collective`` in which, where known. ``phase`` is that of the open step;
    ``ready`` are the gradients of the step that it has submitted. ``ended`` says that its recording
    is over, and ``failed`` that it raised. ``loop``, ``num_updates`` and ``num_epochs`` are those
    of ``collect.standing.LoopStanding``.
    """

    rank: int
    pid: int
    hostname: str
    still_s: float
    in_step_s: float
    segment: str
    step: int
    is_open: bool
    waits: bool
    collective: str
    phase: str
    ready: Sequence[str]
    ended: bool
    failed: bool
    loop: str
    num_updates: int
    num_epochs: int

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The state in a file; None where it is missing or, over a network, not readable now."""
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{field.name: record[field.name] for field in fields(cls)})
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def is_blocked(self) -> bool:
        """Whether the rank reports that its step has not ended, or has ended its recording."""
        return self.still_s > 0 or self.in_step_s > 0 or self.ended

    def is_waiting(self, for_s: float, step: int | None = None) -> bool:
        """Whether the rank has been waiting for so many seconds, in that step where given."""
        is_there = self.waits and not self.ended
        return is_there and self.still_s >= for_s and step in (None, self.step)

    def of_process(self) -> str:
        """What the kernel of this host reports of a rank that itself reports nothing."""
        if self.hostname != socket.gethostname():
            return SILENT
        letter = state_letter(self.pid)
        if not letter:
            return GONE
        return STOPPED if is_stopped(letter) else SILENT
