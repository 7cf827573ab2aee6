"""The watchers of the runs that browsers follow: one per run, for all of them."""

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from hvdprof.api.live import Event, Snapshot, Watcher
from hvdprof.dashboards.run_store import RunStore

MOST_EVENTS = 50
_LOOK_S = 0.8
_FORGET_S = 60.0


@dataclass(slots=True)
class LiveRun:
    """What was seen of a run; events newest first, ``problems`` in their order."""

    watcher: Watcher
    snapshot: Snapshot | None = None
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    problems: list[str] = field(default_factory=list)
    looked_s: float = 0.0
    has_ended: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class LiveWatches:
    """Looks at a run when a browser asks, at most about once per second."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self._watched: dict[str, LiveRun] = {}
        self._lock = threading.Lock()

    def look(self, run_id: str) -> LiveRun:
        """What is known of a run now.

        Raises:
            UsageError: There is no run of that id.
            UnreadableInputError: It cannot be watched.
        """
        now_s, entry = time.monotonic(), self._runs.entry(run_id)
        has_ended = entry is not None and not entry.is_open
        with self._lock:
            self._forget(now_s)
            run = self._watched.get(run_id)
            if run is None or (run.has_ended and not has_ended):
                run = self._watched[run_id] = LiveRun(Watcher(self._runs.path(run_id)))
        with run.lock:
            if now_s - run.looked_s >= _LOOK_S:
                run.looked_s = now_s
                if not run.has_ended:
                    _read_on(run)
                if has_ended:
                    # Its marks would be changes of the run, and its silence events.
                    run.has_ended = True
                    run.watcher.close()
        return run

    def _forget(self, now_s: float) -> None:
        """Close the watchers of pages that were closed."""
        for run_id, run in list(self._watched.items()):
            if run.looked_s and now_s - run.looked_s > _FORGET_S:
                run.watcher.close()
                del self._watched[run_id]


def _read_on(run: LiveRun) -> None:
    look = run.watcher.look()
    run.snapshot = look.snapshot
    run.events.extendleft(look.events)
    run.problems += look.problems
