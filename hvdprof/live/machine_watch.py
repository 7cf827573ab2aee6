"""What the samples of the machine say while a job runs: events, explanations, latest figures."""

import math
import statistics
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from hvdprof.live.explanation import (
    USED,
    Sampled,
    SampleFeed,
    explained_rank,
    explained_slowdown,
)
from hvdprof.live.job_state import Change
from hvdprof.live.job_windows import JobWindow
from hvdprof.live.memory_growth import GROWING, Growing, MemoryGrowth
from hvdprof.live.rank_feed import RankFeed
from hvdprof.live.snapshot import Event
from hvdprof.plain_text import printable
from hvdprof.rundir.recording.sample_format import AVAILABLE, HOST, RSS
from hvdprof.rundir.recording.stall_format import EventKind, EventState

_MOST = 128
"""Windows of samples, of its process and its GPU, and of the job that are held of a rank."""

_MOST_AFTER = 48
"""Windows after the begin of an event: what does not explain it by then does not."""


class MachineWatch:
    """Follows the samples of all ranks."""

    def __init__(self, folder: Path) -> None:
        self._feed = SampleFeed(folder)
        self._growth = MemoryGrowth()
        self._waiting: dict[int, deque[Sampled]] = defaultdict(deque)
        self._latest: dict[int, deque[Sampled]] = defaultdict(lambda: deque(maxlen=_MOST))
        self._windows: deque[JobWindow] = deque(maxlen=_MOST)
        self._hosts: dict[int, str] = {}
        self._unexplained: dict[tuple[EventKind, tuple[int, ...]], Event] = {}
        self._has_begun = False
        self._is_new = False
        self.memory: dict[int, dict[str, float]] = {}
        """The latest of each rank, bytes, by measure."""
        self.available: dict[str, float] = {}
        """Bytes that are available on each host."""

    def look(self, feeds: Mapping[int, RankFeed], now_s: float) -> None:
        """Read on; the clock is that of the watcher."""
        for one in self._feed.look(feeds, now_s):
            self._hosts[one.rank] = feeds[one.rank].host
            self._waiting[one.rank].append(one)
            self._is_new = True

    def take(self, window: JobWindow) -> Iterator[Change]:
        """What the samples until the end of a window change.

        They wait for it: a watcher that reads all from the begin finds the same step for an event.
        """
        self._windows.append(window)
        # Ranks load and allocate until they train.
        self._has_begun |= window.is_counted
        for rank, own in window.ranks.items():
            waiting = self._waiting[rank]
            while waiting and waiting[0].end_s <= own.wall_ns / 1e9:
                yield from self._take(waiting.popleft())

    def _take(self, one: Sampled) -> Iterator[Change]:
        host = self._hosts[one.rank]
        if one.scope == HOST:
            self.available |= {host: one.means[AVAILABLE]} if AVAILABLE in one.means else {}
            return
        used = {name: mean for name, mean in one.means.items() if name in USED}
        if used:
            self._latest[one.rank].append(replace(one, means=used))
        sizes = {name: one.means[name] for name in GROWING if name in one.means}
        if not sizes:
            return
        self.memory.setdefault(one.rank, {}).update(sizes)
        if not self._has_begun:
            return
        room = self.available.get(host, math.nan)
        for growing, is_begin in self._growth.take(one, room):
            yield self._change(growing, one.end_s, is_begin=is_begin)

    def _change(self, found: Growing, at_s: float, *, is_begin: bool) -> Change:
        host, room = self._hosts[found.rank], math.nan
        if found.measure == RSS:
            rates = [
                one.per_s
                for rank, one in self._growth.reported.items()
                if (self._hosts[rank], one.measure) == (host, RSS)
            ]
            room = self.available.get(host, math.nan) / (sum(rates) or math.nan)
        # One window may be long by chance.
        counted = [w.step_ns / 1e9 for w in self._windows if w.is_counted]
        step_s = statistics.fmean(counted or [math.nan])
        text = found.text(host, step_s, room) if is_begin else found.text_over(at_s)
        steps = [w.any_rank for w in self._windows if w.ranks[min(w.ranks)].wall_ns / 1e9 >= at_s]
        return Change(
            kind=EventKind.MEMORY_GROWS,
            state=EventState.BEGUN if is_begin else EventState.OVER,
            since_s=found.since_s if is_begin else at_s,
            time_s=at_s,
            text=text,
            segment=printable(self._windows[-1].any_rank.segment),
            step=steps[0].last if steps else self._windows[-1].any_rank.last,
            ranks=(found.rank,),
            host=host,
        )

    def expect(self, change: Change, begun: Event | None) -> None:
        """Look for what explains an event from its begin on, until it is over."""
        if begun is None:
            self._unexplained.pop((change.kind, change.ranks), None)
        elif change.kind in (EventKind.STRAGGLER, EventKind.SLOWDOWN):
            self._unexplained[change.kind, change.ranks] = begun

    def explained(self, wall_s: float) -> Iterator[Event]:
        """What has been explained since the last look, once per event."""
        if not self._is_new:
            return
        self._is_new = False
        for key, event in list(self._unexplained.items()):
            before: dict[int, list[Sampled]] = {}
            after: dict[int, list[Sampled]] = {}
            for rank, windows in self._latest.items():
                for one in windows:
                    is_after = (one.begin_s + one.end_s) / 2 >= event.since_s
                    (after if is_after else before).setdefault(rank, []).append(one)
            if max(map(len, after.values()), default=0) > _MOST_AFTER:
                del self._unexplained[key]
                continue
            share = event.cost_s / event.step_s if event.step_s else 1.0
            if event.kind == EventKind.SLOWDOWN:
                text = explained_slowdown(before, after, share)
            else:
                text = explained_rank(event.ranks[0], after, share)
            if text:
                del self._unexplained[key]
                yield replace(event, state=EventState.EXPLAINED, time_s=wall_s, text=text)
