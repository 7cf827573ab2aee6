"""How far the ranks of a launch were when it was ended."""

from collections.abc import Sequence

from hvdprof.launch.diagnose.rank_progress import PassProgress, RankState
from hvdprof.launch.diagnose.stall import StalledRank

MAX_NAMED_RANKS = 8


def positions(progress: PassProgress, blocked: Sequence[StalledRank]) -> str:
    """How far each rank was, and where it is blocked, in one clause.

    Args:
        progress: The steps of the ranks.
        blocked: Those whose step had not ended for long.
    """
    states = sorted(progress.ranks.values(), key=lambda state: state.rank)
    if not states:
        return "no rank had begun to record"
    where = {stalled.rank: f", {stalled.activity()}" for stalled in blocked}
    listed = [
        f"rank {state.rank} {_position(state)}{where.get(state.rank, '')}"
        for state in states[:MAX_NAMED_RANKS]
    ]
    num_more = len(states) - MAX_NAMED_RANKS
    return "; ".join([*listed, f"{num_more} more ranks"] if num_more > 0 else listed)


def _position(state: RankState) -> str:
    if state.finished:
        return "had finished"
    if state.segment is None:
        return "was between segments"
    return f"had done {state.num_steps} steps"


def first_stack(blocked: Sequence[StalledRank]) -> list[str]:
    """The stack of the first rank that has one."""
    return next((stalled.stack_lines() for stalled in blocked if stalled.stack), [])


def rank_behind(progress: PassProgress) -> int | None:
    """The rank that has done the fewest steps; None where all have done as many."""
    running = [state for state in progress.ranks.values() if not state.finished]
    counts = {state.num_steps for state in running}
    if len(counts) < 2:
        return None
    return min(running, key=lambda state: state.num_steps).rank
