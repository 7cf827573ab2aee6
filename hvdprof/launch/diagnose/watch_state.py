"""What each rank without progress waits in, as ``hvdprof.collect.watchdog`` writes it."""

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

from hvdprof.collect.standing import IN_LOOP, LEFT_LOOP
from hvdprof.launch.processes.marked_processes import is_stopped, state_letter
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.recording.stall_format import frame_parts, script_frame

RUNS, LEFT, ENDED, ABSENT, GONE, STOPPED, SILENT = (
    *("runs", "left", "ended", "absent", "gone", "stopped", "silent"),
)
"""States of a rank that others wait for, as ``stalls.jsonl`` names them."""

MAX_NAMED_TENSORS = 5
MAX_NAMED_RANKS = 8


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWait:
    """A rank that waits in a collective.

    ``collective`` is the call with the name of its tensor, ``tensors`` are the gradients of the
    step that the rank has submitted and another one has not. ``place`` is the line of the script,
    ``train.py:31``. Each is empty where it is unknown.
    """

    rank: int
    step: int
    collective: str
    place: str
    tensors: list[str] = field(default_factory=list)

    def text(self, other_steps: bool) -> str:
        """What the rank waits in, with its step where ranks are in different ones."""
        parts = [self.collective or "a collective"]
        if self.place:
            parts.append(f"at {self.place}")
        if other_steps:
            parts.append(f"in step {self.step}")
        if self.tensors:
            named = ", ".join(self.tensors[:MAX_NAMED_TENSORS])
            num_more = len(self.tensors) - MAX_NAMED_TENSORS
            parts.append(f"with {named}" + (f" and {num_more} more" if num_more > 0 else ""))
        return " ".join(parts)


def different_waits(
    waits: Sequence[RankWait], ready: Mapping[int, Sequence[str]]
) -> list[RankWait]:
    """The waits with the tensors that not all ranks have submitted; none where all are the same."""
    common = set.intersection(*(set(names) for names in ready.values())) if ready else set()
    kinds = {
        (wait.step, wait.collective, wait.place, frozenset(ready.get(wait.rank, ())) - common)
        for wait in waits
    }
    if len(kinds) < 2:
        return []
    return [
        RankWait(
            rank=wait.rank,
            step=wait.step,
            collective=wait.collective,
            place=wait.place,
            tensors=[name for name in ready.get(wait.rank, ()) if name not in common],
        )
        for wait in waits
    ]


def waits_text(waits: Sequence[RankWait]) -> str:
    """Which ranks wait in what, ``rank 0 in allreduce loss at train.py:31; rank 1 in ...``."""
    other_steps = len({wait.step for wait in waits}) > 1
    ranks: dict[str, list[int]] = {}
    for wait in waits:
        ranks.setdefault(wait.text(other_steps), []).append(wait.rank)
    return "; ".join(f"{ranks_named(of_it)} in {text}" for text, of_it in ranks.items())


def script_place(stack: Sequence[str]) -> str:
    """The innermost line of a stack in the script itself, ``train.py:31``; empty if none is."""
    file, line, _ = frame_parts(script_frame(stack))
    return f"{file}:{line}" if file else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalBatches:
    """Ranks that have ended their training loop after ``num_steps`` steps at least.

    The ranks ``waiting`` are in a step of theirs, the earliest in ``step``, counted from 1.
    """

    ended: list[int]
    num_steps: int
    waiting: list[int]
    step: int

    def past(self) -> str:
        """What happened, once the job is over, one clause."""
        have = "were" if len(self.waiting) > 1 else "was"
        return (
            f"{ranks_named(self.ended)} had ended the training loop after {self.num_steps} steps, "
            f"{ranks_named(self.waiting)} {have} in step {self.step}"
        )


def unequal_batches(states: Mapping[int, WatchState]) -> UnequalBatches | None:
    """The ranks that have ended their loop while others are blocked or have failed inside it.

    A rank that pauses between two epochs is none of them, unless the others are still in the epoch
    that it has ended: they wait in the next one, where it evaluates or writes a checkpoint alone.
    """
    inside = [
        state
        for state in states.values()
        if state.loop == IN_LOOP and (state.failed or (state.waits and state.still_s > 0))
    ]
    if not inside:
        return None
    num_updates = min(state.num_updates for state in inside)
    num_epochs = max(state.num_epochs for state in inside)
    ended = [
        state
        for state in states.values()
        if state.loop == LEFT_LOOP
        and not state.failed
        and state.num_updates <= num_updates
        and (state.ended or (state.is_blocked and state.num_epochs > num_epochs))
    ]
    if not ended:
        return None
    return UnequalBatches(
        ended=sorted(state.rank for state in ended),
        num_steps=min(state.num_updates for state in ended),
        waiting=sorted(state.rank for state in inside),
        step=num_updates + 1,
    )
