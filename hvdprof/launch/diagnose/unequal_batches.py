"""Ranks with fewer batches than others: they have ended, and the others wait for them."""

from collections.abc import Mapping
from dataclasses import dataclass

from hvdprof.collect.standing import IN_LOOP, LEFT_LOOP
from hvdprof.launch.diagnose.watch_state import WatchState
from hvdprof.rank_names import ranks_named


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

    Args:
        states: What each rank wrote last.
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
