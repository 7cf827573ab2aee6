"""The processes of the ranks of a launch, looked at while it runs: exited, or stopped by a signal.

A launcher ends when the output of its ranks is closed, not when they exit: a daemon that a script
leaves behind keeps it open forever. And a rank that a signal stops for half a minute makes its
peers fail under Gloo, though it has done nothing wrong itself.
"""

import socket
import time
from collections.abc import Callable, Mapping

from hvdprof.launch.diagnose.rank_progress import RankState
from hvdprof.launch.processes.process_state import is_stopped, state_letter
from hvdprof.rundir.recording.recorder_format import HeaderLine

EXITED_GRACE_S = 10.0
"""A launcher has that long to notice that all its ranks have exited."""


class RankProcesses:
    """Looks at the processes of the ranks that run on this host.

    Args:
        size: Number of ranks.
        clock: Seconds of a monotonic clock.
    """

    def __init__(self, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._clock = clock
        self._host = socket.gethostname()
        self._seen_running: set[int] = set()
        self._exited_since_s: float | None = None
        self._stopped_since_s: dict[int, float] = {}
        self._longest_s: dict[int, float] = {}

    @property
    def have_exited(self) -> bool:
        """Whether all ranks have run on this host, and have been gone for the grace time."""
        since_s = self._exited_since_s
        return since_s is not None and self._clock() - since_s >= EXITED_GRACE_S

    @property
    def stopped_s(self) -> Mapping[int, float]:
        """For how long a signal stopped a rank at a stretch, while another one ran."""
        return self._longest_s

    def look(self, ranks: Mapping[int, RankState]) -> None:
        """Look once; called several times per second."""
        now_s = self._clock()
        letters = {
            rank: state_letter(state.header["pid"])
            for rank, state in ranks.items()
            if state.header is not None and self._runs_here(state.header)
        }
        self._seen_running |= {rank for rank, letter in letters.items() if letter}
        have_run = len(self._seen_running) == self._size == len(letters)
        if have_run and not any(letters.values()):
            self._exited_since_s = now_s if self._exited_since_s is None else self._exited_since_s
        else:
            self._exited_since_s = None
        stopped = {rank for rank, letter in letters.items() if is_stopped(letter)}
        if len(stopped) == len(letters):
            # As a whole launch is that waits for its turn.
            stopped = set()
        self._stopped_since_s = {
            rank: self._stopped_since_s.get(rank, now_s) for rank in sorted(stopped)
        }
        for rank, since_s in self._stopped_since_s.items():
            self._longest_s[rank] = max(self._longest_s.get(rank, 0.0), now_s - since_s)

    def _runs_here(self, header: HeaderLine) -> bool:
        # A script may have written the file: what the recorder writes is complete.
        return "pid" in header and header.get("host", {}).get("hostname") == self._host
