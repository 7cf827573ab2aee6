"""Evaluations and checkpoints that take much longer than those of the same job before.

A first one is never an event, since nothing says how long it usually takes; nor is one as long as
others were before, such as the large evaluation after every few small ones.
"""

import statistics
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.collect.lines.named_calls import SAVING
from hvdprof.live import snapshot
from hvdprof.live.job_state import Change
from hvdprof.live.job_windows import JobWindow
from hvdprof.live.rank_feed import FileTail, RankFeed
from hvdprof.plain_text import printable
from hvdprof.rundir.json_codec import DAMAGE, JsonObject
from hvdprof.rundir.recording.line_format import CallLine
from hvdprof.rundir.recording.recorder_codec import from_bytes
from hvdprof.rundir.recording.stall_format import EventKind, EventState

LEAST_BEFORE, MOST_BEFORE = 3, 16
TIMES_USUAL, TIMES_LONG, LEAST_MORE_NS = 1.5, 1.2, 1e9
"""Of the median and of the second longest before, and ns more than the median."""

_LOOK_S = 5.0
_REST_S = 15.0
"""A checkpoint of which no further call is seen for as long is whole."""

_ONE_CHECKPOINT_NS = 60_000_000_000
_NAMES = frozenset(".".join(function) for function in SAVING)


@dataclass(slots=True)
class UsualLength:
    """The latest lengths of one kind of pause, ns."""

    _before: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_BEFORE))

    def exceeded(self, length: float) -> float:
        """Note a length; the usual one where this is much longer, else 0."""
        before = sorted(self._before)
        self._before.append(length)
        if len(before) < LEAST_BEFORE:
            return 0.0
        usual = statistics.median(before)
        is_long = length > TIMES_USUAL * usual and length > TIMES_LONG * before[-2]
        return usual if is_long and length - usual >= LEAST_MORE_NS else 0.0


class Evaluations:
    """Follows the evaluations of a job, which are seen when they are over."""

    def __init__(self) -> None:
        self._usual: dict[str, UsualLength] = {}

    def take(self, window: JobWindow) -> list[Change]:
        """The event of a window with an evaluation that was long; of all ranks the longest."""
        one = max(window.ranks.values(), key=lambda rank: rank.evaluation_ns)
        if not one.evaluation_ns:
            return []
        usual = self._usual.setdefault(one.segment, UsualLength()).exceeded(one.evaluation_ns)
        begin_ns = one.wall_ns - one.length_ns
        times = (begin_ns, begin_ns + one.evaluation_ns, one.evaluation_ns, usual)
        where = {"segment": printable(one.segment), "step": one.last}
        return _changes(EventKind.EVALUATION, "An evaluation", times, where)


@dataclass(slots=True)
class _Saving:
    """The calls of one checkpoint of a rank; ``seen_s`` on the clock of the watcher."""

    segment: str
    step: int
    start_ns: int
    end_ns: int
    length_ns: int
    seen_s: float


class Checkpoints:
    """Follows the calls of ``torch.save`` and the like among the sampled lines of ranks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tails: dict[int, FileTail] = {}
        self._open: dict[int, _Saving] = {}
        self._usual: dict[tuple[int, str], UsualLength] = {}
        self._next_s = 0.0

    def look(
        self, feeds: Mapping[int, RankFeed], now_s: float, *, is_over: bool
    ) -> Iterator[Change]:
        """The events of checkpoints that were long and are over, as all are where the job is."""
        if now_s < self._next_s and not is_over:
            return
        self._next_s = now_s + _LOOK_S
        for rank, feed in feeds.items():
            tail = self._tails.get(rank)
            if tail is None:
                tail = self._tails[rank] = FileTail(self._folder / f"lines-{rank}.jsonl")
            for text in tail.lines():
                # Most lines are samples, and are not read here.
                if b'"call"' in text[:40] and (saving := _saving(text, now_s)) is not None:
                    yield from self._take(feed, saving)
            saving = self._open.get(rank)
            if saving is not None and (is_over or now_s - saving.seen_s >= _REST_S):
                yield from self._over(feed, self._open.pop(rank))

    def _take(self, feed: RankFeed, call: _Saving) -> Iterator[Change]:
        before = self._open.get(feed.rank)
        if before is not None:
            is_same = (before.segment, before.step) == (call.segment, call.step)
            if is_same and call.start_ns - before.end_ns < _ONE_CHECKPOINT_NS:
                before.end_ns, before.seen_s = call.end_ns, call.seen_s
                before.length_ns += call.length_ns
                return
            yield from self._over(feed, before)
        self._open[feed.rank] = call

    def _over(self, feed: RankFeed, saving: _Saving) -> list[Change]:
        key = feed.rank, saving.segment
        usual = self._usual.setdefault(key, UsualLength()).exceeded(saving.length_ns)
        begin_ns = saving.start_ns + feed.wall_minus_monotonic_ns
        times = (begin_ns, begin_ns + saving.end_ns - saving.start_ns, saving.length_ns, usual)
        where = {"segment": saving.segment, "step": saving.step, "host": feed.host}
        what = f"A checkpoint of rank {feed.rank}"
        return _changes(EventKind.CHECKPOINT, what, times, {**where, "ranks": (feed.rank,)})


def _changes(
    kind: EventKind, what: str, times: tuple[int, int, int, float], where: JsonObject
) -> list[Change]:
    """The event of a pause; none where nothing is usual, or this is: begin, end, length, usual."""
    begin_ns, end_ns, length_ns, usual_ns = times
    if not usual_ns:
        return []
    return [
        Change(
            kind=kind,
            state=EventState.ONCE,
            since_s=begin_ns / 1e9,
            time_s=end_ns / 1e9,
            text=snapshot.long_pause(what, length_ns, usual_ns),
            cost_s=(length_ns - usual_ns) / 1e9,
            **where,
        )
    ]


def _saving(text: bytes, now_s: float) -> _Saving | None:
    """A call that writes a checkpoint; None for others and damaged lines, which others count."""
    try:
        line: CallLine = from_bytes(text)  # type: ignore[assignment]
        if line["name"] not in _NAMES:
            return None
        start_ns, length_ns = int(line["start_ns"]), int(line["dur_ns"])
        if not 0 <= length_ns < 1 << 62 or abs(start_ns) >= 1 << 62:
            return None
        segment, step = printable(str(line["segment"])), int(line["step"])
    except (*DAMAGE, RecursionError):
        return None
    return _Saving(segment, step, start_ns, start_ns + length_ns, length_ns, now_s)
