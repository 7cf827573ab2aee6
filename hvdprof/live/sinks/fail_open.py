"""What a destination of live figures offers, and one that never delays or ends the watcher."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from hvdprof.live.snapshot import Event, Snapshot
from hvdprof.plain_text import printable, shortened
from hvdprof.rundir.masking import mask_text
from hvdprof.units import counted, seconds

_LONGEST_REASON = 300

CLOSE_S = 2.0
MOST_EVENTS = 100
MOST_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Summary:
    """What is sent of a finished run.

    Args:
        figures: Finite numbers by name.
        texts: Sentences by name.
        report: The HTML report, a file that the caller removes.
    """

    figures: Mapping[str, float]
    texts: Mapping[str, str]
    report: Path


class Sink(Protocol):
    """A destination; it may raise or hang, and is dropped then (``fail_open``).

    What a destination has no use for, it inherits from here: it does nothing.
    """

    name: str
    """How messages call it: ``--prom node.prom``."""

    where: str
    """Where a user finds what it writes: a file, an address, the name of a run."""

    limit_s: float = 0.5
    """From here on, a call counts as hung; longer for a sink that ends its calls itself."""

    def show(self, snapshot: Snapshot) -> None:
        """Take the figures of a window."""

    def report(self, event: Event) -> None:
        """Take an event."""
        return

    def publish(self, summary: Summary) -> None:
        """Take a finished run."""
        return

    def close(self) -> None:
        """The job, or the watcher, has ended."""
        return


def reason_of(error: Exception) -> str:
    """What an exception of any library says: one line without secrets and full stop."""
    text = " ".join(str(error).split()) or type(error).__name__
    return shortened(printable(mask_text(text)), _LONGEST_REASON).rstrip(".")


class FailOpen:
    """Gives snapshots and events to a sink in a thread of its own; no call waits for the sink.

    A newer snapshot replaces one that the sink has not taken; events are kept in order, at most
    100. A call that raises is a failure, and so is each snapshot that comes while a call takes
    longer than its limit. The first failure is a warning; after three in a row the sink is dropped
    with another one. Warnings are given in the thread of the watcher.

    Args:
        sink: The destination; called by one thread alone.
        warn: Takes each warning, one sentence.
        limit_s: How long a call may take, in seconds.

    Attributes:
        num_failures: Failures so far.
        num_lost_events: Events that were never given to the sink.
        is_dropped: Whether it gets no more calls.
    """

    def __init__(
        self, sink: Sink, warn: Callable[[str], None], limit_s: float = Sink.limit_s
    ) -> None:
        self.name = sink.name
        self.where = sink.where
        self.num_failures = 0
        self.num_lost_events = 0
        self.is_dropped = False
        self._sink = sink
        self._warn = warn
        self._limit_s = limit_s
        self._in_a_row = 0
        self._call_began: float | None = None
        self._is_closing = False
        self._snapshot: Snapshot | None = None
        self._events: deque[Event] = deque()
        self._warnings: deque[str] = deque()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, daemon=True, name=sink.name)
        self._thread.start()

    def show(self, snapshot: Snapshot) -> None:
        """Queue the figures of a window; returns at once."""
        with self._changed:
            began = self._call_began
            if began is not None and time.monotonic() - began > self._limit_s:
                self._note_failure(f"a call takes longer than {seconds(self._limit_s)}")
            if not self.is_dropped:
                self._snapshot = snapshot
                self._changed.notify()
        self._give_warnings()

    def report(self, event: Event) -> None:
        """Queue an event; returns at once."""
        with self._changed:
            if self.is_dropped or len(self._events) >= MOST_EVENTS:
                self.num_lost_events += 1
            else:
                self._events.append(event)
                self._changed.notify()
        self._give_warnings()

    def close(self) -> None:
        """Let the sink take what is left and close it; waits at most 2 s."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if not self.is_dropped:
            self._thread.join(CLOSE_S)
        with self._changed:
            if self._thread.is_alive() and not self.is_dropped:
                self._drop(f"it has not ended {seconds(CLOSE_S, whole=True)} after the job")
            if self.num_lost_events:
                lost = counted(self.num_lost_events, "event")
                self._warnings.append(f"{self.name} did not take {lost}.")
        self._give_warnings()

    def _work(self) -> None:
        while (call := self._next_call()) is not None:
            reason = self._called(call)
            with self._changed:
                self._call_began = None
                if reason:
                    self._note_failure(reason)
                else:
                    self._in_a_row = 0
        if reason := self._called(self._sink.close):
            with self._changed:
                if not self.is_dropped:
                    self._note_failure(reason)

    def _next_call(self) -> Callable[[], None] | None:
        """The next call of the sink; None when it is to be closed."""
        with self._changed:
            while True:
                if self.is_dropped:
                    return None
                self._call_began = time.monotonic()
                if self._events:
                    return partial(self._sink.report, self._events.popleft())
                if (snapshot := self._snapshot) is not None:
                    self._snapshot = None
                    return partial(self._sink.show, snapshot)
                self._call_began = None
                if self._is_closing:
                    return None
                self._changed.wait()

    def _called(self, call: Callable[[], None]) -> str:
        """Why a call failed; empty where it did not."""
        try:
            call()
        except Exception as error:
            return reason_of(error)
        return ""

    def _note_failure(self, reason: str) -> None:
        self.num_failures += 1
        self._in_a_row += 1
        if self.is_dropped:
            return
        if self._in_a_row >= MOST_FAILURES:
            self._drop(f"it failed {MOST_FAILURES} times in a row: {reason}")
        elif self.num_failures == 1:
            self._warnings.append(f"{self.name} failed: {reason}.")

    def _drop(self, reason: str) -> None:
        self.is_dropped = True
        self.num_lost_events += len(self._events)
        self._events.clear()
        self._snapshot = None
        self._warnings.append(f"{self.name} gets no more figures: {reason}.")

    def _give_warnings(self) -> None:
        # A warning may come in any thread, but is given in the one that draws the screen.
        while self._warnings:
            self._warn(self._warnings.popleft())
