"""What windows of all ranks say about a running job: stragglers, slowdowns, input.

Lateness is the own time of a rank (a step less its waits) beyond the median of the other ranks, as
a share of the step (``analyze`` uses the same own time).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hvdprof.live import snapshot
from hvdprof.live.e_detector import EDetector, beyond_others
from hvdprof.live.job_windows import JobRow, JobRows, JobWindow, late_phase, mean
from hvdprof.live.snapshot import RankView
from hvdprof.plain_text import printable
from hvdprof.rundir.recording.stall_format import EventKind, EventState

LATENESS, SLOWDOWN, INPUT = (0.05, 0.10, 0.20), (0.10, 0.20, 0.40), (0.10, 0.20, 0.40)
"""Excess that may be an event: shares of the step, of the first steps, of the step."""

FIRST_WINDOWS = 20
_JOB = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An event before it has a number: ``live.snapshot.Event``.

    ``time_s`` is the wall clock of the ranks when it could be seen, NaN for now.
    """

    kind: EventKind
    state: EventState
    since_s: float
    text: str
    time_s: float = math.nan
    segment: str = ""
    step: int = -1
    ranks: tuple[int, ...] = ()
    host: str = ""
    phase: str = ""
    cost_s: float = 0.0
    step_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What the begin of an excess means: a sentence, the phase, the cost in ns per step."""

    text: str
    phase: str
    cost: float


_Explain = Callable[[int, Sequence[JobRow]], _Meaning]


class JobState:
    """Takes windows in their order; the caller fills ``hosts``."""

    def __init__(self) -> None:
        self.hosts: dict[int, str] = {}
        self.rows = JobRows()
        self.segment = ""
        self.has_unseen_waits = False
        self._first: list[JobRow] = []
        self._late = EDetector(LATENESS)
        self._slow = EDetector(SLOWDOWN)
        self._input = EDetector(INPUT)
        self._since_s: dict[tuple[EventKind, int], float] = {}

    def take(self, window: JobWindow) -> list[Change]:
        """What a window changes; warm-up and evaluations are left out."""
        if not window.is_counted:
            return []
        row = JobRow.of(window)
        segment = printable(window.any_rank.segment)
        is_segment = bool(self.rows.rows) and segment != self.segment
        self.has_unseen_waits = math.isnan(row.blocked)
        # Segments of a benchmark, sessions of elastic jobs, ranks that are gone: steps differ.
        changes = (
            self._begin_anew(row, is_segment=is_segment)
            if self.rows.add(row, is_segment=is_segment)
            else []
        )
        self.segment = segment
        late = {rank: time / row.step for rank, time in beyond_others(row.own).items()}
        changes += self._tested(self._late, late, EventKind.STRAGGLER, self._straggler)
        if len(self._first) < FIRST_WINDOWS:
            self._first.append(row)
        else:
            # What single ranks cost is no slowdown of all ranks.
            slower = {_JOB: row.common / self._first_common() - 1}
            changes += self._tested(self._slow, slower, EventKind.SLOWDOWN, self._slowdown)
        share = {} if self.has_unseen_waits else {_JOB: row.data / row.step}
        return changes + self._tested(self._input, share, EventKind.INPUT_BOUND, self._input_bound)

    def _tested(
        self, detector: EDetector, values: Mapping[int, float], kind: EventKind, explain: _Explain
    ) -> list[Change]:
        begun, ended = detector.update(values)
        changes = [
            self._over(kind, name, self.rows.latest(detector.series[name].num_since_end())[0])
            for name in ended
        ]
        for name in begun:
            rows = self.rows.latest(detector.series[name].num_since_begin())
            meaning, step = explain(name, rows), mean([one.step for one in rows])
            since_s = rows[0].end_s - step * (rows[0].last - rows[0].first + 1) / 1e9
            self._since_s[kind, name] = since_s
            changes.append(
                Change(
                    kind=kind,
                    state=EventState.BEGUN,
                    since_s=since_s,
                    text=meaning.text,
                    time_s=rows[-1].end_s,
                    segment=self.segment,
                    step=rows[0].first,
                    ranks=_ranks(name),
                    host=self.hosts.get(name, ""),
                    phase=meaning.phase,
                    cost_s=meaning.cost / 1e9,
                    step_s=step / 1e9,
                )
            )
        return changes

    def _straggler(self, rank: int, rows: Sequence[JobRow]) -> _Meaning:
        phase, late = late_phase(rank, rows)
        cost = mean([row.cost_of(rank) for row in rows])
        text = snapshot.straggler(
            rank,
            self.hosts.get(rank, ""),
            phase,
            late_ns=late,
            cost_ns=cost,
            step_ns=mean([row.step for row in rows]),
        )
        return _Meaning(text, phase, cost)

    def _slowdown(self, _: int, rows: Sequence[JobRow]) -> _Meaning:
        step, first = mean([row.common for row in rows]), self._first_common()
        text = snapshot.slowdown(step, first, is_seen=not self.has_unseen_waits)
        return _Meaning(text, "", step - first)

    def _input_bound(self, _: int, rows: Sequence[JobRow]) -> _Meaning:
        wait = mean([row.data for row in rows])
        text = snapshot.input_bound(wait, mean([row.step for row in rows]))
        return _Meaning(text, "data", wait)

    def _over(self, kind: EventKind, name: int, row: JobRow) -> Change:
        """The end of an event before a row."""
        since_s = self._since_s.get((kind, name), row.end_s)
        ended_s = row.end_s - row.step * (row.last - row.first + 1) / 1e9
        lasted_s = max(ended_s - since_s, 0.0)
        if kind == EventKind.STRAGGLER:
            text = snapshot.straggler_over(name, lasted_s)
        elif kind == EventKind.SLOWDOWN:
            text = snapshot.slowdown_over(lasted_s)
        else:
            text = snapshot.input_bound_over(lasted_s)
        return Change(
            kind=kind,
            state=EventState.OVER,
            since_s=max(ended_s, since_s),
            text=text,
            time_s=self.rows.rows[-1].end_s,
            segment=self.segment,
            step=row.first - 1,
            ranks=_ranks(name),
            host=self.hosts.get(name, ""),
        )

    def _begin_anew(self, row: JobRow, *, is_segment: bool) -> list[Change]:
        detectors = {
            EventKind.STRAGGLER: self._late,
            EventKind.SLOWDOWN: self._slow,
            EventKind.INPUT_BOUND: self._input,
        }
        changes = [
            self._over(kind, name, row)
            for kind, detector in detectors.items()
            for name, series in detector.series.items()
            if series.running
        ]
        self._late, self._slow, self._input = map(EDetector, (LATENESS, SLOWDOWN, INPUT))
        self._first.clear()
        text = snapshot.tested_anew(is_segment=is_segment)
        return [replace(one, text=text) for one in changes]

    def _first_common(self) -> float:
        steps = sorted(one.common for one in self._first)
        return steps[len(steps) // 2] if steps else math.nan

    @property
    def first_samples_per_s(self) -> float:
        """Samples per second in the first windows; NaN before there is one."""
        rates = sorted(one.samples_per_s for one in self._first)
        return rates[len(rates) // 2] if rates else math.nan

    def is_named(self, rank: int) -> bool:
        """Whether an event names the rank as the straggler now."""
        series = self._late.series.get(rank)
        return series is not None and series.running

    def views(self) -> list[RankView]:
        """Every rank that takes part, over the latest windows."""
        return [
            RankView(
                rank, self.hosts.get(rank, ""), late / 1e9, cost / 1e9, phase, self.is_named(rank)
            )
            for rank, (late, phase, cost) in sorted(self.rows.lateness().items())
        ]


def _ranks(name: int) -> tuple[int, ...]:
    return () if name == _JOB else (name,)
