"""The sentences of events; ``docs/howto/watch.md`` shows them."""

import time
from collections.abc import Sequence

from hvdprof import units
from hvdprof.live.sampled_place import MostSampled
from hvdprof.rank_names import ranks_named

OUTSIDE = "outside"
_PHASES = {OUTSIDE: "outside all phases", "before_update": "before the optimizer"}


def phase_name(phase: str) -> str:
    """``in data``, ``outside all phases``; empty without a phase."""
    if not phase:
        return ""
    return _PHASES.get(phase, f"in {phase}")


def straggler(
    rank: int, host: str, phase: str, *, late_ns: float, cost_ns: float, step_ns: float
) -> str:
    """A rank that is later than the others, by how much and at which cost."""
    where = f" on {host}" if host else ""
    return (
        f"Rank {rank}{where} is {units.milliseconds(late_ns, 2)} per step slower than the others "
        f"{phase_name(phase)}: costs {units.milliseconds(cost_ns, 2)} of "
        f"{units.milliseconds(step_ns, 2)} per step ({units.two_digit_percent(cost_ns / step_ns)})."
    )


def straggler_over(rank: int, lasted_s: float) -> str:
    """A rank that is no longer later than the others."""
    return f"Rank {rank} is as fast as the others again, after {units.duration(lasted_s)}."


def tested_anew(*, is_segment: bool) -> str:
    """What was reported is tested anew: another segment has begun, or other ranks take part."""
    cause = "Another segment has begun" if is_segment else "Other ranks take part now"
    return f"{cause}: what was named before it is tested anew."


def slowdown(step_ns: float, first_ns: float, *, is_seen: bool) -> str:
    """Steps are longer than at the begin.

    Args:
        step_ns: Length of a step without the lateness of single ranks, where that is seen.
        first_ns: The same at the begin.
        is_seen: Whether the waits of ranks for each other are seen.
    """
    now, first = (units.milliseconds(time, 2) for time in (step_ns, first_ns))
    if is_seen:
        return (
            f"Every rank is slower: without the lateness of single ranks, steps take {now}, "
            f"{first} at the begin of the job."
        )
    return f"Steps take {now}, {first} at the begin of the job; whether of one rank is not seen."


def slowdown_over(lasted_s: float) -> str:
    """Steps take as long as at the begin."""
    return f"Steps take as long as at the begin again, after {units.duration(lasted_s)}."


def input_bound(wait_ns: float, step_ns: float) -> str:
    """Every rank waits for data."""
    return (
        f"Every rank spends {units.milliseconds(wait_ns, 2)} of {units.milliseconds(step_ns, 2)} "
        f"per step in data ({units.two_digit_percent(wait_ns / step_ns)})."
    )


def input_bound_over(lasted_s: float) -> str:
    """Data is no longer a large part of the step on every rank."""
    return f"Data is no longer a large part of the step, after {units.duration(lasted_s)}."


def no_progress(silent_s: float, step: int) -> str:
    """No rank has ended a step for long."""
    return f"No rank has ended a step for {units.duration(silent_s)}; the last one was {step}."


def progress_again(lasted_s: float) -> str:
    """Ranks end steps again."""
    return f"Ranks end steps again, after {units.duration(lasted_s)}."


def ended(lasted_s: float) -> str:
    """Ranks that ended no step have ended their recordings."""
    return f"The recordings have ended, after {units.duration(lasted_s)} without a step."


def rank_silent(ranks: Sequence[int], silent_s: float) -> str:
    """Of ranks nothing is seen while it is of others: they, or the way to them, may be at fault."""
    it = "it" if len(ranks) == 1 else "them"
    return (
        f"No new recordings of {ranks_named(ranks)} have been seen for {units.duration(silent_s)} "
        f"while others were; the figures leave {it} out."
    )


def rank_back(ranks: Sequence[int], lasted_s: float) -> str:
    """Ranks record again."""
    verb = "is" if len(ranks) == 1 else "are"
    return f"{_begin(ranks)} {verb} seen again, after {units.duration(lasted_s)}."


def rank_ended(ranks: Sequence[int], lasted_s: float) -> str:
    """Ranks that were silent have ended their recordings."""
    has, its = ("has", "its recording") if len(ranks) == 1 else ("have", "their recordings")
    return f"{_begin(ranks)} {has} ended {its}, after {units.duration(lasted_s)}."


def long_pause(what: str, length_ns: float, usual_ns: float) -> str:
    """An evaluation or a checkpoint that took longer than those before it."""
    length, usual, more = (
        units.duration(one / 1e9) if one >= 1e9 else units.milliseconds(one, 2)
        for one in (length_ns, usual_ns, length_ns - usual_ns)
    )
    return f"{what} took {length}, {more} longer than usual ({usual}, the median of those before)."


def sampled(rank: int, found: MostSampled, files: Sequence[str]) -> str:
    """What a named rank has answered.

    Args:
        rank: The rank.
        found: What its samples show.
        files: Names of the files that it wrote.
    """
    where = phase_name(found.phase) or "in all phases"
    share = units.two_digit_percent(found.share)
    place = f"{found.place} has {share}" if found.place else "no line of the script stands out"
    whom = f"rank {rank} {where}"
    if found.workers:
        whom = f"{units.counted(found.workers, 'worker')} of rank {rank}"
    return (
        f"Of {units.counted(found.number, 'sample')} of {whom}, in "
        f"{units.duration(found.span_s)}, {place}. Files: {', '.join(files)}."
    )


def profiled(files: Sequence[str]) -> str:
    """Steps that ranks have recorded with torch.profiler."""
    return f"Steps under torch.profiler, which do not count: {', '.join(files)}."


def clock(time_s: float) -> str:
    """A time of day of the watcher's host: ``14:03:07``."""
    return time.strftime("%H:%M:%S", time.localtime(time_s))


def _begin(ranks: Sequence[int]) -> str:
    named = ranks_named(ranks)
    return f"{named[:1].upper()}{named[1:]}"
