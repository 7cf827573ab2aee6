"""What is known of a running job at one moment: the one thing that screens and sinks show."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvdprof.rundir.recording.stall_format import EventKind, EventState

LEAST_LATE, MOST_SHOWN = 0.05, 8
CAUSE_TEXTS = {
    "straggler": "waiting for the slowest rank",
    "communication": "communication (least wait of all ranks)",
    "input": "data (least of all ranks)",
}
"""What the keys of ``Snapshot.costs_s`` mean."""


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
