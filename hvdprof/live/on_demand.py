"""What a watcher writes for ranks to see, and what they answer.

They see that they are watched. A named rank is asked for samples and stacks, and with another one,
where that is wanted, for profiled steps.

``collect.lines.event_answers`` answers in the rank. Requests and answers are files beside the
recordings, so that a watcher that is started again finds what another one has asked for.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.errors import HvdprofError
from hvdprof.live import snapshot
from hvdprof.live.sampled_place import most_sampled
from hvdprof.live.snapshot import Event
from hvdprof.plain_text import printable
from hvdprof.rundir.layout import (
    REQUESTS,
    SAMPLES,
    STACKS,
    TRACE,
    answer_file,
    request_file,
    watched_mark,
)
from hvdprof.rundir.rank_requests import Request, read_requests, write_requests
from hvdprof.rundir.recording.stall_format import EventState
from hvdprof.rundir.written_file import open_run_file

MOST_PROFILES = 3
"""Events of a run on which steps are profiled."""

_LONGEST_S = 120.0
"""An answer that has not come by then is not waited for."""


@dataclass(slots=True)
class _Waiting:
    """An event whose rank was asked; ``until_s`` on the clock of the watcher."""

    event: Event
    until_s: float
    is_sampled: bool = False
    is_profiled: bool = False


class OnDemand:
    """Asks the ranks of a launch.

    Args:
        folder: The folder of the recorder files.
        place: The run, or the folder that is watched.
        profiles: Whether steps are to be profiled.
    """

    def __init__(self, folder: Path, place: Path, *, profiles: bool) -> None:
        self._folder, self._place, self._profiles = folder, place, profiles
        self._waiting: dict[int, _Waiting] = {}
        self._unmarked = self._unasked = ""

    @property
    def problem(self) -> str:
        """Why ranks do not see that they are watched, or are asked; empty while they do."""
        return self._unmarked or self._unasked

    def mark(self) -> None:
        """Show the ranks that they are watched: their windows take a second from then on."""
        path = watched_mark(self._folder)
        try:
            with open_run_file(path, "w") as file:
                file.write(f"{time.time_ns()}\n")
            self._unmarked = ""
        except OSError as error:
            self._unmarked = (
                f"{printable(str(path))} cannot be written ({error.strerror or error}): "
                "the windows of a light recording stay up to 10 s long, and events are seen later"
            )

    def close(self) -> None:
        """Remove the mark by which the ranks know that they are watched."""
        with contextlib.suppress(OSError):
            about = self._folder.stat()
            watched_mark(self._folder).unlink()
            # A page that shows the run takes a later time for a change of it.
            os.utime(self._folder, ns=(about.st_atime_ns, about.st_mtime_ns))

    def expect(self, event: Event, now_s: float) -> None:
        """Wait for what the rank of an event answers, also where another watcher has asked it."""
        self._waiting[event.number] = _Waiting(event, now_s + _LONGEST_S)

    def ask(self, event: Event, other: int, first_step: int) -> None:
        """Ask the rank of an event.

        Args:
            event: Its begin.
            other: A rank that is not late; the same where there is none.
            first_step: The step from which on both record with torch.profiler, where wanted.
        """
        may_profile = self._profiles and len(self._profiled()) < MOST_PROFILES
        profiled = first_step if may_profile else -1
        self._write(event.ranks[0], Request(event.number, True, profiled))
        if profiled >= 0 and other != event.ranks[0]:
            self._write(other, Request(event.number, False, profiled))

    def answers(self, now_s: float, wall_s: float, *, is_over: bool) -> Iterator[Event]:
        """What ranks have answered since the last look.

        Args:
            now_s: The clock of the watcher.
            wall_s: The wall clock.
            is_over: Whether no more is to come.
        """
        for number, waiting in list(self._waiting.items()):
            event = replace(waiting.event, time_s=wall_s)
            is_last = is_over or now_s >= waiting.until_s
            sampled = None if waiting.is_sampled else self._sampled(event, is_last=is_last)
            if sampled is not None:
                waiting.is_sampled = True
                yield sampled
            traces = sorted(path.name for path in self._folder.glob(f"event-{number}-*{TRACE}"))
            if not waiting.is_profiled and (len(traces) > 1 or (traces and is_last)):
                waiting.is_profiled = True
                text = snapshot.profiled(traces)
                yield replace(event, state=EventState.PROFILED, text=text, files=tuple(traces))
            if is_last or (waiting.is_sampled and waiting.is_profiled):
                del self._waiting[number]

    def _profiled(self) -> set[tuple[Path, int]]:
        """Folder and number of the events of the run of which there are traces, or will be."""
        found = set()
        for path in self._place.rglob(f"event-*-rank-*{TRACE}"):
            number = path.name.removeprefix("event-").partition("-")[0]
            found.add((path.parent, int(number) if number.isdecimal() else -1))
        for path in self._place.rglob(REQUESTS):
            asked = [one for one in _requests(path) if one.first_step >= 0]
            found |= {(path.parent, one.event) for one in asked}
        return found

    def _sampled(self, event: Event, *, is_last: bool) -> Event | None:
        path = answer_file(self._folder, event.number, event.ranks[0], SAMPLES)
        workers = sorted(path.parent.glob(f"{path.stem}-worker-*{SAMPLES}"))
        found = most_sampled(path, event.phase, workers)
        if found is None and is_last:
            # A worker may have been killed meanwhile.
            workers, found = [], most_sampled(path, event.phase)
        if found is None:
            return None
        paths = [one.with_suffix(end) for one in (path, *workers) for end in (SAMPLES, STACKS)]
        files = tuple(one.name for one in paths if one.exists())
        text = snapshot.sampled(event.ranks[0], found, files)
        return replace(
            event,
            state=EventState.SAMPLED,
            text=text,
            place=found.place or event.place,
            share=found.share if found.place else 0.0,
            files=files,
        )

    def _write(self, rank: int, request: Request) -> None:
        path = request_file(self._folder, rank)
        try:
            write_requests(path, [*_requests(path), request])
        except (HvdprofError, OSError) as error:
            self._unasked = f"named ranks cannot be asked for samples: {error}"


def _requests(path: Path) -> list[Request]:
    try:
        return read_requests(path)
    except OSError:
        return []
