"""Progress of a measurement, on stderr so that stdout holds the result alone."""

import time
from typing import IO, TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from hvdprof import api, units
from hvdprof.plain_text import printable_lines

if TYPE_CHECKING:
    from hvdprof.api import PassProgress, PassRecord, Stall


_EACH_S = 30.0
"""Off a terminal, a launch that runs gets a line in such distances."""


def progress_for(stream: IO[str], *, silent: bool, tee: bool | None = False) -> "api.SweepProgress":
    """A progress bar on a terminal, plain lines elsewhere, nothing when silent.

    Args:
        stream: Where to write.
        silent: Show nothing.
        tee: Show what the ranks print, too; None for one launch on a terminal alone.
    """
    if silent:
        return api.SilentProgress()
    if stream.isatty():
        return _Bar(Console(file=stream), tee)
    return _Lines(stream, is_teed=bool(tee))


class _Output:
    """What the ranks of the launches print, as far as it was not shown yet."""

    def __init__(self) -> None:
        self._latest: dict[int, PassProgress] = {}

    def of(self, record: "PassRecord", progress: "PassProgress | None" = None) -> list[str]:
        """The lines that are new; at its end, of the progress that a launch had last."""
        if progress is not None:
            self._latest[id(record)] = progress
        latest = self._latest.get(id(record))
        return [] if latest is None else [printable_lines(line) for line in latest.printed()]


class TimeLeft:
    """Estimates the time left from the passes that have ended, by their number of segments.

    Every launch costs the same few seconds to start, so a pass counts as one segment more than it
    holds.
    """

    def __init__(self) -> None:
        # By object: two runs at once have passes of the same names.
        self._waiting: dict[int, int] = {}
        self._spent_s = 0.0
        self._done = 0

    def start(self, passes: "list[PassRecord]") -> None:
        """The passes that are to run."""
        self._waiting = {id(record): _weight(record) for record in passes}

    def end(self, record: "PassRecord") -> None:
        """A pass has ended."""
        weight = self._waiting.pop(id(record), _weight(record))
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
    def __init__(self, stream: IO[str], *, is_teed: bool) -> None:
        self._stream = stream
        self._output = _Output() if is_teed else None
        self._started: dict[int, tuple[float, float]] = {}
        self._left = TimeLeft()
        self._total = 0
        self._number = 0
        self._noticed: set[str] = set()
        self._said: set[str] = set()

    def sweep_started(self, passes: "list[PassRecord]") -> None:
        """Remember how many passes there are, behind those of earlier sweeps."""
        self._total = self._number + len(passes)
        self._left.start(passes)

    def repeat_planned(self, passes: "list[PassRecord]") -> None:
        """Count further passes."""
        self._total = self._number + len(passes)
        self._left.start(passes)

    def pass_started(self, record: "PassRecord") -> None:
        """Write nothing: the line of a pass follows at its end, and one every 30 s before that."""
        now = time.monotonic()
        self._started[id(record)] = (now, now)

    def pass_progressed(self, record: "PassRecord", progress: "PassProgress") -> None:
        """Write once what cannot be recorded, and every 30 s how far rank 0 is."""
        self._tee(record, progress)
        now = time.monotonic()
        began, written = self._started.setdefault(id(record), (now, now))
        if now - written >= _EACH_S:
            self._started[id(record)] = (began, now)
            state = progress.ranks.get(0)
            step = "starting" if state is None else f"step {units.count(state.num_steps)}"
            since = units.seconds(now - began, whole=True)
            self._stream.write(f"    {api.launch_title(record)}: {step} after {since}\n")
            self._stream.flush()
        if progress.notice and record.id not in self._noticed:
            self._noticed.add(record.id)
            self._stream.write(f"    {api.launch_title(record)}: {progress.notice}\n")
            self._stream.flush()

    def stalled(self, record: "PassRecord", stall: "Stall") -> None:
        """Write the stall and the stack of the stalled rank at once."""
        for line in stall.lines():
            self._stream.write(f"    {line}\n")
        self._stream.flush()

    def pass_ended(self, record: "PassRecord") -> None:
        """Write one line per pass; those that take turns end together."""
        self._tee(record)
        self._number += 1
        self._total = max(self._total, self._number)
        self._left.end(record)
        took = units.seconds(record.duration_s or 0.0)
        parts = [
            f"[{self._number}/{self._total}] {api.launch_title(record)}: {record.status} in {took}"
        ]
        parts += [left] if (left := self._left.text()) else []
        self._stream.write(", ".join(parts) + "\n")
        for line in _failures(record, self._said):
            self._stream.write(f"    {line}\n")
        self._stream.flush()

    def sweep_ended(self) -> None:
        """Write nothing: every pass has its line."""

    def _tee(self, record: "PassRecord", progress: "PassProgress | None" = None) -> None:
        if self._output is not None:
            self._stream.writelines(f"{line}\n" for line in self._output.of(record, progress))
            self._stream.flush()


class _Bar:
    def __init__(self, console: Console, tee: bool | None) -> None:
        self._tee = tee
        self._output = _Output()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[doing]}"),
            console=console,
            transient=True,
            # The display must not take a core from the measurement.
            refresh_per_second=2,
        )
        self._left = TimeLeft()
        self._task = TaskID(0)
        self._shown_at = 0.0
        self._noticed: set[str] = set()
        self._said: set[str] = set()

    def sweep_started(self, passes: "list[PassRecord]") -> None:
        """Show the bar, in place of that of an earlier sweep."""
        self._left.start(passes)
        if self._tee is None:
            self._tee = len(passes) == 1
        for ended in self._progress.task_ids:
            self._progress.remove_task(ended)
        self._task = self._progress.add_task("launches", total=len(passes), doing="")
        self._progress.start()

    def repeat_planned(self, passes: "list[PassRecord]") -> None:
        """Extend the bar."""
        self._left.start(passes)
        total = self._progress.tasks[-1].completed + len(passes)
        self._progress.update(self._task, total=total)

    def pass_started(self, record: "PassRecord") -> None:
        """Show what is launched."""
        self._show(record, "starting")

    def pass_progressed(self, record: "PassRecord", progress: "PassProgress") -> None:
        """Show the segment that runs and the step of rank 0, and once what cannot be recorded."""
        if progress.notice and record.id not in self._noticed:
            self._noticed.add(record.id)
            line = f"{api.launch_title(record)}: {progress.notice}"
            self._progress.console.print(line, markup=False, highlight=False)
        self._print(record, progress)
        now = time.monotonic()
        state = progress.ranks.get(0)
        if state is None or state.segment is None or now - self._shown_at < 0.4:
            return
        self._shown_at = now
        title = api.segment_title(record, state.segment)
        self._show(record, f"{title}, step {state.num_steps}")

    def stalled(self, record: "PassRecord", stall: "Stall") -> None:
        """Print the stall and the stack of the stalled rank above the bar."""
        first, *others = stall.lines()
        for line in (f"{api.launch_title(record)}: {first}", *others):
            self._progress.console.print(line, markup=False, highlight=False)

    def pass_ended(self, record: "PassRecord") -> None:
        """Advance the bar."""
        self._print(record)
        self._left.end(record)
        for line in _failures(record, self._said):
            self._progress.console.print(
                f"{api.launch_title(record)}: {line}", markup=False, highlight=False
            )
        self._progress.advance(self._task)

    def sweep_ended(self) -> None:
        """Remove the bar and show the cursor again."""
        self._progress.stop()

    def _print(self, record: "PassRecord", progress: "PassProgress | None" = None) -> None:
        """Print what the script prints above the bar."""
        for line in self._output.of(record, progress) if self._tee else ():
            self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _show(self, record: "PassRecord", what: str) -> None:
        left = self._left.text()
        doing = f"{api.launch_title(record)}: {what}" + (f"  ({left})" if left else "")
        self._progress.update(self._task, doing=doing)


def _failures(record: "PassRecord", said: set[str]) -> list[str]:
    """A line for each segment that failed; what earlier ones died of is not said again."""
    lines = []
    for part in record.segments:
        if part.failure is None:
            continue
        # Whichever rank was the first to fail.
        error = part.failure.reason.replace(f"rank {part.failure.rank} ", "rank ")
        how = " in the same way" if error in said else f": {part.failure.reason}"
        lines.append(f"{api.segment_title(record, part.segment.id)} failed{how}")
        said.add(error)
    return lines


def _weight(record: "PassRecord") -> int:
    return 1 + len(record.segments)
