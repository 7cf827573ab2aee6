"""The watcher: look at all recordings once, and say what is known and what has happened."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from hvdprof.live.job_state import Change, JobState
from hvdprof.live.job_windows import SHOWN, JobWindows, mean
from hvdprof.live.long_pauses import Checkpoints, Evaluations
from hvdprof.live.machine_watch import MachineWatch
from hvdprof.live.on_demand import OnDemand
from hvdprof.live.rank_feed import RankFeed
from hvdprof.live.sampled_place import LATEST_NS, sampled_place
from hvdprof.live.silence import LEAST_SILENT_S, Silence, Stalls
from hvdprof.live.snapshot import Event, Snapshot
from hvdprof.live.watched_job import EventFile, Recordings, WatchedJob
from hvdprof.rundir.recording.stall_format import EventKind, EventState

LOOK_S = 1.0
_MARK_S = 5.0
_LEAD_S = 5.0
"""So long before ranks profile the same steps, they are asked to."""

_PARTIAL_S = 60.0
"""All ranks have begun to record by then, where their files are seen."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has found; ``problems`` are reported once each."""

    snapshot: Snapshot
    events: Sequence[Event]
    problems: Sequence[str]


class Watcher:
    """Follows a job; ``look`` is called about once per second.

    Args:
        place: As ``WatchedJob``.
        clock: Seconds of a monotonic clock.
        wall: Seconds of the wall clock.
        profiles: Whether a named rank, and one that is not, record steps with torch.profiler.

    Raises:
        UnreadableInputError: The place cannot be watched.
    """

    def __init__(
        self,
        place: Path,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        *,
        profiles: bool = False,
    ) -> None:
        self._job = WatchedJob(place)
        self._place, self._profiles = place, profiles
        self._clock, self._wall = clock, wall
        self._launch: _Launch | None = None
        self._reported: set[str] = set()
        self._marked_s = -math.inf

    def look(self) -> Look:
        """Read what was added, and say what is known now.

        Raises:
            UnreadableInputError: The manifest of the run cannot be read any more.
        """
        # Asked before: what is written until then is read by this look.
        is_over = self._job.is_over()
        latest = self._job.latest()
        now_s, wall_s = self._clock(), self._wall()
        events: list[Event] = []
        if latest is not None and (self._launch is None or self._launch.files != latest):
            if self._launch is not None:
                events += self._launch.look(now_s, wall_s)
                self._launch.on_demand.close()
            on_demand = OnDemand(latest.folder, self._place, profiles=self._profiles)
            self._launch, self._marked_s = _Launch(latest, on_demand), -math.inf
        if self._launch is None:
            return Look(_nothing(self._job.name, wall_s, is_over=is_over), (), ())
        events += self._launch.look(now_s, wall_s, is_over=is_over)
        is_over = is_over if self._job.is_run else self._launch.has_ended
        if not is_over and now_s - self._marked_s >= _MARK_S:
            self._marked_s = now_s
            self._launch.on_demand.mark()
        new = [text for text in self._launch.problems() if text not in self._reported]
        self._reported.update(new)
        return Look(self._launch.snapshot(wall_s, is_over=is_over), events, new)

    def close(self) -> None:
        """Remove the mark by which the ranks know that they are watched."""
        if self._launch is not None:
            self._launch.on_demand.close()


class _Launch:
    """One launch that is watched."""

    def __init__(self, files: Recordings, on_demand: OnDemand) -> None:
        self.files, self.on_demand = files, on_demand
        self._feeds: dict[int, RankFeed] = {}
        self._windows = JobWindows()
        self._state = JobState()
        self._silence = Silence()
        self._stalls = Stalls(files.stalls)
        self._events = EventFile(files.events)
        self._evaluations = Evaluations()
        self._checkpoints = Checkpoints(files.folder)
        self._machine = MachineWatch(files.folder)
        self._step = -1
        self._ended_s: dict[int, float] = {}
        self._is_first = True
        self._partial_since_s: float | None = None
        self._is_partial = False

    @property
    def size(self) -> int:
        """The number of ranks, by what they recorded first."""
        return max((feed.size for feed in self._feeds.values()), default=0)

    @property
    def has_ended(self) -> bool:
        """Whether every rank has ended its recording."""
        feeds = self._feeds.values()
        return len(feeds) >= max(self.size, 1) and all(feed.has_ended for feed in feeds)

    def look(self, now_s: float, wall_s: float, *, is_over: bool = False) -> list[Event]:
        """Read on; the events that are new."""
        for rank, path in self.files.files().items():
            if rank not in self._feeds:
                self._feeds[rank] = RankFeed(rank, path)
        changes: list[Change] = []
        self._note_missing(now_s)
        while self._read(now_s):
            for window in self._windows.finished(self._num_awaited(now_s)):
                self._step = window.any_rank.last
                changes += self._state.take(window)
                changes += self._evaluations.take(window)
                changes += self._machine.take(window)
        is_over |= self.has_ended
        changes += self._checkpoints.look(self._feeds, now_s, is_over=is_over)
        if self._is_first and is_over:
            # No watcher has followed that job while it ran: its run must not say so.
            self._events.keeps = False
        self._is_first = False
        steps = {rank: feed.last_step for rank, feed in self._feeds.items()}
        has_stalls = self.files.stalls.exists()
        for change in self._silence.look(now_s, wall_s, steps):
            if change.kind == EventKind.RANK_SILENT and change.state == EventState.BEGUN:
                self._windows.leave_out(change.ranks[0])
            # Who waits for whom is known there; what was reported before has its end.
            is_taken = change.kind != EventKind.NO_PROGRESS or change.state == EventState.OVER
            if is_taken or not has_stalls:
                changes.append(change)
        changes += self._stalls.look()
        found = [self._taken(change, now_s, wall_s) for change in changes]
        answers = self.on_demand.answers(now_s, wall_s, is_over=is_over)
        found += map(self._events.follow, chain(answers, self._machine.explained(wall_s)))
        return [event for event in found if event is not None]

    def _note_missing(self, now_s: float) -> None:
        if len(self._feeds) >= self.size:
            self._partial_since_s = None
        elif self._partial_since_s is None:
            self._partial_since_s = now_s
        since_s = self._partial_since_s
        self._is_partial = since_s is not None and now_s - since_s >= _PARTIAL_S

    def _num_awaited(self, now_s: float) -> int:
        left = [rank for rank, at in self._ended_s.items() if now_s - at > LEAST_SILENT_S]
        return len(self._feeds) - len(self._silence.silent.keys() | left)

    def _taken(self, change: Change, now_s: float, wall_s: float) -> Event | None:
        is_named = change.kind == EventKind.STRAGGLER and change.state == EventState.BEGUN
        # What is over for long is not sampled now.
        is_recent = is_named and self._state.rows.rows[-1].end_s - change.time_s <= LATEST_NS / 1e9
        others = [rank for rank in self._feeds if not self._state.is_named(rank)]
        other = min(others, default=change.ranks[0]) if is_named else -1
        place = self._place(change, other) if is_recent else ""
        text = f"{change.text} Sampled there: {place}." if place else change.text
        event = self._events.take(replace(change, text=text), wall_s, place)
        begun = self._events.running_of(change)
        self._machine.expect(change, begun)
        if is_named and begun is not None and self._events.keeps:
            self.on_demand.expect(begun, now_s)
            if event is not None and is_recent:
                lead = max(math.ceil(_LEAD_S / change.step_s) if change.step_s else 0, 2)
                self.on_demand.ask(begun, other, self._step + lead)
        return event

    def _read(self, now_s: float) -> bool:
        """Read a piece of every file; whether there was any, so that another may follow."""
        is_any = False
        for rank, feed in self._feeds.items():
            windows = feed.windows()
            is_any |= feed.is_behind
            if feed.has_ended:
                self._silence.forget(rank)
                if now_s - self._ended_s.setdefault(rank, now_s) > LEAST_SILENT_S:
                    # The others continue without it.
                    self._windows.leave_out(rank)
            else:
                self._silence.note(rank, now_s, is_new=bool(windows))
            if windows:
                is_any = True
                self._windows.add(rank, windows)
                self._state.hosts[rank] = feed.host
        self._machine.look(self._feeds, now_s)
        return is_any

    def _place(self, change: Change, other: int) -> str:
        late_ns = 1e9 * change.cost_s
        return sampled_place(self.files.folder, change.ranks[0], other, change.phase, late_ns)

    def problems(self) -> list[str]:
        """What the user should know of the figures."""
        damaged = sum(feed.num_damaged for feed in self._feeds.values())
        found = [self.on_demand.problem, self._events.problem]
        if self._is_partial:
            found.append(
                f"this host sees the recordings of {len(self._feeds)} of {self.size} ranks: the "
                "figures are of those alone"
            )
        if damaged:
            found.append("damaged lines in the recordings are skipped")
        if self._state.has_unseen_waits:
            found.append(
                "the waits of ranks for each other are not seen in this job, so that no rank can "
                "be named"
            )
        return [text for text in found if text]

    def snapshot(self, wall_s: float, *, is_over: bool) -> Snapshot:
        """What is known now."""
        rows = self._state.rows.latest(SHOWN)
        if not rows:
            return _nothing(self.files.name, wall_s, is_over=is_over, num_ranks=self.size)
        step = mean([row.step for row in rows])
        views = self._state.views()
        named = [view for view in views if view.is_named] or views
        late_s = max((view.cost_s for view in named), default=math.nan)
        blocked = mean([row.blocked for row in rows])
        data_s = mean([row.data for row in rows]) / 1e9
        costs_s = {"straggler": late_s, "communication": blocked / 1e9, "input": data_s}
        return Snapshot(
            job=self.files.name,
            time_s=wall_s,
            num_ranks=self.size,
            step=self._step,
            step_s=step / 1e9,
            samples_per_s=mean([row.samples_per_s for row in rows]),
            first_samples_per_s=self._state.first_samples_per_s,
            lateness_cost_ratio=late_s * 1e9 / step,
            exposed_communication_ratio=blocked / step,
            input_wait_s=data_s,
            costs_s={cause: cost for cause, cost in costs_s.items() if not math.isnan(cost)},
            ranks=views,
            memory_bytes=self._machine.memory,
            available_bytes=min(self._machine.available.values(), default=math.nan),
            events_total=dict(self._events.counts),
            running=self._events.running,
            is_over=is_over,
        )


def _nothing(name: str, wall_s: float, *, is_over: bool, num_ranks: int = 0) -> Snapshot:
    return Snapshot(
        *(name, wall_s, num_ranks, -1, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan),
        is_over=is_over,
    )
