"""How a sweep gets on, shown on stderr so that stdout holds the result alone."""

import time
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from hvdprof import units
from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall
from hvdprof.launch.run.silent_observer import SilentObserver
from hvdprof.launch.run.sweep import SweepObserver
from hvdprof.model.cell_key import ENGINE_TITLES
from hvdprof.rundir.manifest import PassRecord
from hvdprof.rundir.plan import DDP_ENGINE, TORCH_ENGINE


def observer_for(stream: IO[str], *, quiet: bool) -> SweepObserver:
    """A progress bar on a terminal, plain lines elsewhere, nothing when quiet."""
    if quiet:
        return SilentObserver()
    return _Bar(Console(file=stream)) if stream.isatty() else _Lines(stream)


class TimeLeft:
    """Guesses the time left from the passes that have ended, by their number of segments.

    A launch costs the same few seconds whatever runs in it, so a pass counts as one segment more
    than it holds.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}
        self._spent_s = 0.0
        self._done = 0

    def start(self, passes: list[PassRecord]) -> None:
        """The passes that are to run."""
        self._waiting = {record.id: _weight(record) for record in passes}

    def end(self, record: PassRecord) -> None:
        """A pass has ended."""
        weight = self._waiting.pop(record.id, _weight(record))
        if record.duration_s is not None:
            self._spent_s += record.duration_s
            self._done += weight

    def text(self) -> str:
        """``'about 40 s left'``; empty while nothing has ended yet."""
        if not self._done or not self._waiting:
            return ""
        left_s = sum(self._waiting.values()) * self._spent_s / self._done
        return f"about {units.seconds(left_s, whole=True)} left"


class _Lines:
    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._left = TimeLeft()
        self._total = 0
        self._number = 0

    def sweep_started(self, passes: list[PassRecord]) -> None:
        """Remember how much there is to do."""
        self._total = len(passes)
        self._left.start(passes)

    def pass_started(self, record: PassRecord) -> None:
        """Count it; the line comes when it has ended."""
        self._number += 1
        self._total = max(self._total, self._number)

    def pass_progressed(self, record: PassRecord, progress: PassProgress) -> None:
        """Shows nothing: a log does not want a line a step."""

    def stalled(self, record: PassRecord, stall: Stall) -> None:
        """The stall and the stack of a late rank, at once."""
        for line in stall.lines():
            self._stream.write(f"    {line}\n")
        self._stream.flush()

    def pass_ended(self, record: PassRecord) -> None:
        """One line a pass."""
        self._left.end(record)
        took = units.seconds(record.duration_s or 0.0)
        parts = [f"[{self._number}/{self._total}] {_title(record)}: {record.status} in {took}"]
        parts += [left] if (left := self._left.text()) else []
        self._stream.write(", ".join(parts) + "\n")
        for line in _failures(record):
            self._stream.write(f"    {line}\n")
        self._stream.flush()

    def sweep_ended(self) -> None:
        """Nothing: every pass has had its line."""


class _Bar:
    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[doing]}"),
            console=console,
            transient=True,
            # A sweep measures: the display must not take a core from it.
            refresh_per_second=2,
        )
        self._left = TimeLeft()
        self._task = TaskID(0)
        self._shown_at = 0.0

    def sweep_started(self, passes: list[PassRecord]) -> None:
        """Show the bar."""
        self._left.start(passes)
        self._task = self._progress.add_task("launches", total=len(passes), doing="")
        self._progress.start()

    def pass_started(self, record: PassRecord) -> None:
        """Say what is launched."""
        self._say(record, "starting")

    def pass_progressed(self, record: PassRecord, progress: PassProgress) -> None:
        """Say which segment runs and at which step rank 0 is."""
        now = time.monotonic()
        state = progress.ranks.get(0)
        if state is None or state.segment is None or now - self._shown_at < 0.4:
            return
        self._shown_at = now
        self._say(record, f"{state.segment}, step {state.num_steps}")

    def stalled(self, record: PassRecord, stall: Stall) -> None:
        """The stall and the stack of a late rank, above the bar."""
        first, *others = stall.lines()
        for line in (f"{_title(record)}: {first}", *others):
            self._progress.console.print(line, markup=False, highlight=False)

    def pass_ended(self, record: PassRecord) -> None:
        """Move on."""
        self._left.end(record)
        for line in _failures(record):
            self._progress.console.print(f"{_title(record)}: {line}", markup=False, highlight=False)
        self._progress.advance(self._task)

    def sweep_ended(self) -> None:
        """Take the bar away, and give the terminal its cursor back."""
        self._progress.stop()

    def _say(self, record: PassRecord, what: str) -> None:
        left = self._left.text()
        doing = f"{_title(record)}: {what}" + (f"  ({left})" if left else "")
        self._progress.update(self._task, doing=doing)


def _title(record: PassRecord) -> str:
    if record.session is not None:
        return f"elastic, {record.mode}, repeat {record.repeat}"
    ranks = "1 rank" if record.size == 1 else f"{record.size} ranks"
    plain = all(segment.segment.engine == TORCH_ENGINE for segment in record.segments)
    what = "plain torch" if plain else f"{_under(record)}{record.mode}"
    return f"{ranks}, {what}, repeat {record.repeat}"


def _under(record: PassRecord) -> str:
    return f"{ENGINE_TITLES[DDP_ENGINE]}, " if record.engine == DDP_ENGINE else ""


def _failures(record: PassRecord) -> list[str]:
    return [
        f"{segment.segment.id} failed: {segment.failure.reason}"
        for segment in record.segments
        if segment.failure is not None
    ]


def _weight(record: PassRecord) -> int:
    return 1 + len(record.segments)
