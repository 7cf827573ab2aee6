"""What each rank waits in where all of them wait: the same collective, or different ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvdprof.rank_names import ranks_named
from hvdprof.rundir.recording.stall_format import frame_parts, script_frame

MAX_NAMED_TENSORS = 5
MAX_NAMED_RANKS = 8


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
    """The waits with the tensors that not all ranks have submitted; none where all are the same.

    Args:
        waits: One for each rank.
        ready: The gradients of the step that each rank has submitted.
    """
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
