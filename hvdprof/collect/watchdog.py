"""Reports from inside a rank that it is blocked: where, which gradients are missing, its stack.

Horovod's own stall check never fires under Gloo (0.28.1). A thread reads the state of the recorder
every second. While the rank makes progress nothing is written at all. Once it has made none for a
while, or its step takes much longer than usual, its state goes into ``watch/rank-<rank>.json``
beside the recorder files, and the stacks of its threads into ``watch/rank-<rank>.stack``. Whether
that is a stall is decided by the launching side, which sees all ranks
(``hvdprof.launch.diagnose.stall_watch``).
"""

import atexit
import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.standing import Standing, Watched
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.written_file import make_run_folders, open_run_file

STALL_WARN = "HVDPROF_STALL_WARN"

LOOK_EVERY_S = 1.0
LONGEST_BEAT_S = 5.0

STILL_S, LEAST_STILL_S = 8.0, 5.0
"""Seconds without any change after which a rank writes its state; fewer where its steps are short.

A job that is ended before ``--stall-warn`` leaves behind where its ranks were.
"""

UNUSUAL = 20.0
"""A step that takes this many usual ones is too long."""

STOPPED_S = 3.0
"""Between two looks so far apart the process was stopped, as between turns, or had no core."""

_LEAST_STEPS = 5


class StepPace:
    """How long a step of this rank usually takes, by the looks at it."""

    def __init__(self) -> None:
        self._segment = ""
        self._first = self._latest = (0, 0.0)

    def see(self, standing: Standing, now_s: float) -> None:
        """Note where the rank is now."""
        if standing.segment != self._segment:
            self._segment = standing.segment
            self._first = self._latest = standing.step, now_s
        elif standing.step != self._latest[0]:
            self._latest = standing.step, now_s

    @property
    def usual_s(self) -> float | None:
        """Mean seconds of a step of the segment so far; None before enough of them."""
        num_steps = self._latest[0] - self._first[0]
        if num_steps < _LEAST_STEPS:
            return None
        return (self._latest[1] - self._first[1]) / num_steps

    def in_step_s(self, now_s: float) -> float:
        """Seconds since the last step ended."""
        return now_s - self._latest[1]


class Watchdog:
    """Watches one rank.

    Args:
        watched: What the rank says where it is; called from another thread.
        paths: The files of the pass; their folder is made when missing.
        rank: The rank.
        still_after_s: Seconds without any change after which the rank reports that it is blocked
            at the latest.
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        watched: Watched,
        paths: PassPaths,
        rank: int,
        still_after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watched = watched
        self._uncaught_before = _uncaught_exception()
        self._paths = paths
        self._rank = rank
        self._still_after_s = still_after_s
        # Twice by the time at which the launching side decides whether it is a stall.
        self._beat_every_s = min(LONGEST_BEAT_S, 0.25 * still_after_s)
        self._clock = clock
        self._pace = StepPace()
        self._seen: Standing | None = None
        self._since_s = 0.0
        self._looked_s = self._runs_since_s = clock()
        self._reported_s: float | None = None
        self._reported_still = False
        self._beat = 0

    def look(self) -> bool:
        """Look once, and report a blocked rank; false once the recording is over.

        Raises:
            OSError: The files cannot be written.
        """
        now_s, standing = self._clock(), self._watched.standing()
        if now_s - self._looked_s > STOPPED_S:
            self._runs_since_s = now_s
        self._looked_s = now_s
        self._pace.see(standing, now_s)
        has_changed = standing != self._seen
        if has_changed:
            self._seen, self._since_s = standing, now_s
        else:
            self._watched.at_rest()
        is_blocked = not standing.ended and self._is_blocked(standing, now_s)
        if is_blocked and self._is_due(has_changed, now_s):
            self._write_stacks()
            self._write_state(standing, now_s, is_blocked=True)
            self._reported_s, self._reported_still = now_s, not has_changed
        elif not is_blocked:
            # A report is withdrawn at once.
            if self._reported_s is not None or standing.ended or not self._beat:
                self._write_state(standing, now_s, is_blocked=False)
            self._reported_s = None
        return not standing.ended

    def close(self) -> None:
        """The process ends: write where, and whether by an exception.

        Raises:
            OSError: The file cannot be written.
        """
        failed = _uncaught_exception() is not self._uncaught_before
        standing = replace(self._watched.standing(), ended=True, waits=False)
        standing = replace(standing, failed=standing.failed or failed)
        self._write_state(standing, self._clock(), is_blocked=False)

    def _is_blocked(self, standing: Standing, now_s: float) -> bool:
        """Whether nothing has changed for long, or the step takes much longer than usual."""
        usual_s = self._pace.usual_s
        still_s = STILL_S
        if usual_s is not None:
            still_s = min(STILL_S, max(LEAST_STILL_S, UNUSUAL * usual_s))
        running_s = now_s - self._runs_since_s
        is_still = min(now_s - self._since_s, running_s) >= still_s
        is_late = now_s - self._since_s >= self._still_after_s
        if is_still or is_late or usual_s is None or not standing.is_open:
            return is_still or is_late
        in_step_s = min(self._pace.in_step_s(now_s), running_s)
        return in_step_s >= max(STILL_S, UNUSUAL * usual_s)

    def _is_due(self, has_changed: bool, now_s: float) -> bool:
        if self._reported_s is None or now_s - self._reported_s >= self._beat_every_s:
            return True
        # What waited and continues is seen at once; what continues within its long step is not.
        return has_changed and self._reported_still

    def _write_state(self, standing: Standing, now_s: float, *, is_blocked: bool) -> None:
        self._beat += 1
        state = {
            "rank": self._rank,
            "pid": os.getpid(),
            "hostname": socket.gethostname(),
            "beat": self._beat,
            "still_s": round(now_s - self._since_s, 3) if is_blocked else 0.0,
            "in_step_s": round(self._pace.in_step_s(now_s), 3) if is_blocked else 0.0,
            **asdict(standing),
            **asdict(self._watched.loop()),
        }
        with self._written(self._paths.watch_file(self._rank)) as file:
            json.dump(state, file)

    def _write_stacks(self) -> None:
        import faulthandler

        with self._written(self._paths.stack_file(self._rank)) as file:
            faulthandler.dump_traceback(file, all_threads=True)

    @contextlib.contextmanager
    def _written(self, path: Path) -> Iterator[IO[str]]:
        """A file that the launching side sees whole or not at all: the rank may be ended now."""
        make_run_folders(path.parent)
        temporary = path.with_suffix(f"{path.suffix}.new")
        with open_run_file(temporary, "w") as file:
            yield file
        temporary.replace(path)


def watch_over(
    watched: Watched, recorder_folder: Path, rank: int, environment: Mapping[str, str] = os.environ
) -> None:
    """Start to watch this rank where ``HVDPROF_STALL_WARN`` asks for it, seconds above 0.

    Args:
        watched: What the rank says where it is; called from another thread.
        recorder_folder: The folder of the recorder files.
        rank: The rank.
        environment: Holds the variable.
    """
    try:
        warn_s = float(environment.get(STALL_WARN, "0"))
    except ValueError:
        return
    if not 0 < warn_s < float("inf"):
        return
    # Reported a little before the launching side asks for it.
    watchdog = Watchdog(watched, PassPaths(recorder_folder.parent), rank, 0.8 * warn_s)

    def guarded(act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:
            # Such as a full disk: it ends the watch and not the training.
            atexit.unregister(close)
            print_problem(f"stall reporting disabled: {type(error).__name__}: {error}")

    def keep_looking() -> None:
        while watchdog.look():
            time.sleep(LOOK_EVERY_S)

    def close() -> None:
        # A forked worker ends as well.
        if os.getpid() == own_pid:
            guarded(watchdog.close)

    own_pid = os.getpid()
    atexit.register(close)
    try:
        threading.Thread(
            target=guarded, args=(keep_looking,), name="hvdprof watchdog", daemon=True
        ).start()
    except RuntimeError as error:
        atexit.unregister(close)
        print_problem(f"stall reporting disabled: {error}")


def _uncaught_exception() -> object:
    # Python sets it before it calls `sys.excepthook`, which the script may have replaced.
    return getattr(sys, "last_value", None)
