"""What is known of a running job at one moment, and the sentences of its events."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvdprof import units
from hvdprof.live.sampled_place import MostSampled
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.recording.stall_format import EventKind, EventState

LEAST_LATE, MOST_SHOWN = 0.05, 8
CAUSE_TEXTS = {
    "straggler": "waiting for the slowest rank",
    "communication": "communication (least wait of all ranks)",
    "input": "data (least of all ranks)",
}
"""What the keys of ``Snapshot.costs_s`` mean."""

OUTSIDE = "outside"
_PHASES = {OUTSIDE: "outside all phases", "before_update": "before the optimizer"}


@dataclass(frozen=True, slots=True)
class RankView:
    """A rank over the latest windows; times in seconds per step.

    ``late_s`` is the time by which it is later than the median rank, negative where it is earlier;
    ``cost_s`` what the job would win without that; ``phase`` the phase in which most of it lies,
    empty where it is not later. ``is_named`` while an event names the rank.
    """

    rank: int
    host: str
    late_s: float
    cost_s: float
    phase: str
    is_named: bool


@dataclass(frozen=True, slots=True)
class Event:
    """Something that began, ended, or happened once; as ``rundir.recording.stall_format``.

    Times in seconds of the wall clock; ``cost_s`` and ``step_s`` per step, 0 where unknown, as
    ``share``.
    """

    number: int
    kind: EventKind
    state: EventState
    time_s: float
    since_s: float
    segment: str
    step: int
    ranks: tuple[int, ...]
    host: str
    phase: str
    cost_s: float
    step_s: float
    place: str
    text: str
    share: float = 0.0
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A running job over its latest windows; lengths in seconds per step.

    Args:
        job: The name of the job, and of the pass where it has several.
        time_s: Wall clock of the watcher.
        step: The last step that all ranks have ended.
        step_s: Length of a step; NaN before the first window of all ranks, as all below.
        samples_per_s: Samples of all ranks per second.
        first_samples_per_s: The same in the first windows after the warm-up.
        lateness_cost_ratio: Share of the step that the named causes, or else the latest rank, cost.
        exposed_communication_ratio: Share of the step in which ranks wait for the transfer alone:
            the least wait of all ranks; NaN where waits are unseen.
        input_wait_s: Least time of all ranks in the phase data; NaN where waits are unseen.
        costs_s: Cost per step by cause, for bars: ``straggler``, ``input``, ``communication`` ...
        ranks: Every rank that has recorded, by number.
        memory_bytes: The latest memory of each rank, by ``rss`` and ``torch_allocated``.
        available_bytes: Memory available on the host with least of it; NaN where unknown.
        events_total: Events so far, by kind.
        running: Events that have begun and are not over.
        is_over: Whether every rank has ended its recording.
    """

    job: str
    time_s: float
    num_ranks: int
    step: int
    step_s: float
    samples_per_s: float
    first_samples_per_s: float
    lateness_cost_ratio: float
    exposed_communication_ratio: float
    input_wait_s: float
    costs_s: Mapping[str, float] = field(default_factory=dict)
    ranks: Sequence[RankView] = ()
    memory_bytes: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    available_bytes: float = math.nan
    events_total: Mapping[EventKind, int] = field(default_factory=dict)
    running: Sequence[Event] = ()
    is_over: bool = False

    def differing(self) -> list[RankView]:
        """The ranks to show: named ones first, then those that are later by 5 % of a step."""
        ordered = sorted(self.ranks, key=lambda view: (not view.is_named, -view.late_s))
        least_s = LEAST_LATE * self.step_s
        found = [view for view in ordered if view.is_named or view.late_s >= least_s]
        return found[:MOST_SHOWN]

    def without_difference(self) -> str:
        """What to say where no rank is to be shown."""
        if len(self.ranks) < 2:
            return "Whether ranks differ is not known: fewer than two are seen with their waits."
        return "No rank is 5 % or more of a step slower than the others."


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
    """What a named rank has answered."""
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
