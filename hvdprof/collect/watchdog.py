"""Reports from inside a rank that it is blocked: where, which gradients are missing, its stack.

Horovod's own stall check never fires under Gloo (0.28.1). A thread reads the state of the recorder
every second. While the rank makes progress nothing is written at all. Once it has made none for a
while its state goes into ``watch/rank-<rank>.json`` beside the recorder files, and the stacks of
its threads into ``watch/rank-<rank>.stack``. Whether that is a stall is decided by the launching
side, which sees all ranks (``hvdprof.launch.diagnose.stall_watch``).
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hvdprof.collect.diagnostics import print_problem
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.run_file import make_run_folders, open_run_file

STALL_WARN = "HVDPROF_STALL_WARN"

LOOK_EVERY_S = 1.0
LONGEST_BEAT_S = 5.0


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a rank is.

    ``waits`` says that it is in a collective and waits for others, ``collective`` in which, with
    the name of its tensor, where known. ``phase`` is that of the open step (empty outside phases).
    ``ready`` are the gradients of the step that the rank has submitted, ``missing`` the others.
    ``ended`` says that the recording is over.
    """

    segment: str = ""
    step: int = 0
    is_open: bool = False
    waits: bool = False
    collective: str = ""
    phase: str = ""
    ready: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    ended: bool = False


class Watchdog:
    """Watches one rank.

    Args:
        standing: Where the rank is now; called from another thread.
        paths: The files of the pass; their folder is made when missing.
        rank: The rank.
        still_after_s: Seconds without any change after which the rank reports that it is blocked.
        at_rest: Called at each look that sees no change since the one before; raises nothing.
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        standing: Callable[[], Standing],
        paths: PassPaths,
        rank: int,
        still_after_s: float,
        at_rest: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._standing = standing
        self._at_rest = at_rest
        self._paths = paths
        self._rank = rank
        self._still_after_s = still_after_s
        # Twice by the time at which the launching side decides whether it is a stall.
        self._beat_every_s = min(LONGEST_BEAT_S, 0.25 * still_after_s)
        self._clock = clock
        self._seen: Standing | None = None
        self._since_s = 0.0
        self._reported_s: float | None = None
        self._beat = 0

    def look(self) -> bool:
        """Look once, and report a blocked rank; false once the recording is over.

        Raises:
            OSError: The files cannot be written.
        """
        now_s, standing = self._clock(), self._standing()
        if standing != self._seen:
            self._seen, self._since_s = standing, now_s
            if self._reported_s is not None or standing.ended or not self._beat:
                self._write_state(standing, now_s)
            self._reported_s = None
            return not standing.ended
        self._at_rest()
        if now_s - self._since_s >= self._still_after_s:
            if self._reported_s is None:
                self._dump_stacks()
            if self._reported_s is None or now_s - self._reported_s >= self._beat_every_s:
                self._write_state(standing, now_s)
                self._reported_s = now_s
        return not standing.ended

    def _write_state(self, standing: Standing, now_s: float) -> None:
        self._beat += 1
        state = {
            "rank": self._rank,
            "pid": os.getpid(),
            "hostname": socket.gethostname(),
            "beat": self._beat,
            "still_s": round(now_s - self._since_s, 3),
            **asdict(standing),
        }
        path = self._paths.watch_file(self._rank)
        make_run_folders(path.parent)
        temporary = path.with_suffix(".new")
        with open_run_file(temporary, "w") as file:
            json.dump(state, file)
        temporary.replace(path)

    def _dump_stacks(self) -> None:
        make_run_folders(self._paths.watch_folder)
        import faulthandler

        with open_run_file(self._paths.stack_file(self._rank), "w") as file:
            faulthandler.dump_traceback(file, all_threads=True)


def watch_over(
    standing: Callable[[], Standing],
    at_rest: Callable[[], None],
    recorder_folder: Path,
    rank: int,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Start to watch this rank where ``HVDPROF_STALL_WARN`` asks for it, seconds above 0.

    Args:
        standing: Where the rank is now; called from another thread, as ``at_rest`` is.
        at_rest: Called where nothing has changed for a second or two; raises nothing.
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
    watchdog = Watchdog(standing, PassPaths(recorder_folder.parent), rank, 0.8 * warn_s, at_rest)

    def keep_looking() -> None:
        try:
            while watchdog.look():
                time.sleep(LOOK_EVERY_S)
        except Exception as error:
            # Such as a full disk: it ends the watch and not the training.
            print_problem(f"stall reporting disabled: {type(error).__name__}: {error}")

    try:
        threading.Thread(target=keep_looking, name="hvdprof watchdog", daemon=True).start()
    except RuntimeError as error:
        print_problem(f"stall reporting disabled: {error}")
