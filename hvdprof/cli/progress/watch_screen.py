"""How `hvdprof watch` shows a running job: a screen that refreshes, or a line per event."""

import json
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.api.live import CAUSE_TEXTS, Event, Look, Snapshot
from hvdprof.rank_names import ranks_named

_BAR = 30
_BEGUN = "Ranks are recording; a line follows for each event."
_MOST_EVENTS = 12
_TONES = {"begun": "bold yellow", "over": "green"}
_TONE_OF_OTHERS = "cyan"


class Screen(Protocol):
    """Shows looks at a job."""

    def show(self, look: Look) -> None:
        """Show one look."""


@contextmanager
def screen_of(
    out: IO[str], problems: IO[str], *, as_json: bool, waiting: str = ""
) -> Iterator[Screen]:
    """A screen on a terminal, else lines; problems go to another stream there.

    Args:
        out: Where it is shown.
        problems: Where sentences on what limits the figures go.
        as_json: Show a JSON object per event.
        waiting: A sentence for a job of which no rank has recorded yet.
    """
    if as_json or not out.isatty():
        yield _Lines(out, problems, as_json=as_json, waiting=waiting)
        return
    console = Console(file=out)
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        yield _Refreshed(live, waiting)


def event_line(event: Event) -> str:
    """``14:03:07 straggler begun (since 14:02:41): Rank 1 is ...``."""
    since = f" (since {_clock(event.since_s)})" if event.state == "begun" else ""
    return f"{_clock(event.time_s)} {event.kind} {event.state}{since}: {event.text}"


class _Lines:
    def __init__(self, out: IO[str], problems: IO[str], *, as_json: bool, waiting: str) -> None:
        self._out, self._problems, self._as_json = out, problems, as_json
        self._waiting, self._said = waiting, ""

    def show(self, look: Look) -> None:
        now = self._waiting if not look.snapshot.num_ranks else _BEGUN
        if self._waiting and now != self._said and not look.snapshot.is_over:
            self._problems.write(f"hvdprof: {now}\n")
            self._problems.flush()
            self._said = now
        for problem in look.problems:
            self._problems.write(f"hvdprof: {problem.rstrip('.')}.\n")
        for event in look.events:
            text = json.dumps(_as_object(event)) if self._as_json else event_line(event)
            self._out.write(f"{text}\n")
        if look.events:
            self._out.flush()
        if look.snapshot.is_over and not self._as_json:
            self._out.write(f"{_end(look.snapshot)}\n")


class _Refreshed:
    def __init__(self, live: Live, waiting: str) -> None:
        self._live, self._waiting = live, waiting
        self._events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self._problems: list[str] = []

    def show(self, look: Look) -> None:
        self._events.extend(look.events)
        self._problems += look.problems
        shown = drawn(look.snapshot, self._events, self._problems, self._waiting)
        self._live.update(shown, refresh=True)


def drawn(
    snapshot: Snapshot, events: Iterable[Event], problems: Sequence[str] = (), waiting: str = ""
) -> RenderableType:
    """What a terminal shows: figures, ranks that differ, events, the latest problems."""
    parts: list[RenderableType] = [Text(_head(snapshot), style="bold")]
    if math.isnan(snapshot.step_s):
        parts.append(Text(_nothing_yet(snapshot, waiting)))
    else:
        parts += [Text(_rates(snapshot)), _bars(snapshot), _ranks(snapshot)]
    lines = [
        Text(event_line(event), style=_TONES.get(event.state, _TONE_OF_OTHERS)) for event in events
    ]
    parts += [Text("\nEvents", style="bold"), *lines] if lines else []
    parts += [Text(f"Note: {problem.rstrip('.')}.", style="dim") for problem in problems[-3:]]
    if snapshot.is_over:
        parts.append(Text(_end(snapshot)))
    return Group(*parts)


def _head(snapshot: Snapshot) -> str:
    ranks = units.counted(snapshot.num_ranks, "rank") if snapshot.num_ranks else "no rank yet"
    step = f", step {units.count(snapshot.step)}" if snapshot.step >= 0 else ""
    return f"{snapshot.job}: {ranks}{step}, {_clock(snapshot.time_s)}"


def _nothing_yet(snapshot: Snapshot, waiting: str) -> str:
    if snapshot.is_over:
        return "The job has ended without a window of steps of all ranks."
    if waiting and not snapshot.num_ranks:
        return waiting
    return "No steps of all ranks yet: imports, compilation and warm-up come first."


def _rates(snapshot: Snapshot) -> str:
    change = snapshot.samples_per_s / snapshot.first_samples_per_s - 1
    against = "" if math.isnan(change) else f" ({round(100 * change):+} % against the begin)"
    step = units.milliseconds(1e9 * snapshot.step_s)
    return f"{units.rate(snapshot.samples_per_s)} samples/s{against}, {step} per step"


def _bars(snapshot: Snapshot) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for cause, cost_s in sorted(snapshot.costs_s.items(), key=lambda one: -one[1]):
        share = cost_s / snapshot.step_s
        bar = "█" * round(_BAR * min(max(share, 0.0), 1.0))
        cost = units.milliseconds(1e9 * cost_s)
        table.add_row(CAUSE_TEXTS.get(cause, cause), cost, units.two_digit_percent(share), bar)
    return table


def _ranks(snapshot: Snapshot) -> RenderableType:
    differ = snapshot.differing()
    if not differ:
        return Text(snapshot.without_difference())
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("rank", "host", "slower per step", "costs per step", "phase", ""):
        table.add_column(name)
    for view in differ:
        table.add_row(
            *(str(view.rank), view.host, units.milliseconds(1e9 * view.late_s)),
            *(units.milliseconds(1e9 * view.cost_s), view.phase.replace("_", " ")),
            "named" if view.is_named else "not confirmed",
        )
    return table


def _end(snapshot: Snapshot) -> str:
    number = sum(snapshot.events_total.values())
    events = units.counted(number, "event") if number else "no event"
    still = ", ".join(
        f"{event.kind} ({ranks_named(event.ranks)})" if event.ranks else str(event.kind)
        for event in snapshot.running
    )
    return f"The job has ended: {events}" + (f"; to the end: {still}." if still else ".")


def _as_object(event: Event) -> dict[str, object]:
    names = ("number", "kind", "state", "time_s", "since_s", "segment", "step", "ranks", "host")
    more = ("phase", "cost_s", "step_s", "place", "text", "share", "files")
    return {name: getattr(event, name) for name in (*names, *more)}


def _clock(time_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_s))
