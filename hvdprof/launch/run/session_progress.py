"""How far an elastic launch got: its sessions, each with ranks of its own.

Tested in ``tests/launch/run/test_session_passes.py``.
"""

from collections.abc import Callable

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall, StalledRank
from hvdprof.launch.diagnose.stall_watch import StallWatch
from hvdprof.launch.diagnose.unequal_batches import UnequalBatches
from hvdprof.rundir.failure import Failure
from hvdprof.rundir.layout import PassPaths


class ElasticProgress(PassProgress):
    """The sessions of an elastic launch by number; ``ranks`` are those of the latest."""

    def __init__(self, paths: PassPaths) -> None:
        super().__init__(paths)
        self.sessions: dict[int, PassProgress] = {}

    def update(self) -> int:
        """Read on in every recorder file of every session; the bytes read so far."""
        for number, paths in self._paths.sessions().items():
            if number not in self.sessions:
                self.sessions[number] = PassProgress(paths)
        read = sum(session.update() for session in self.sessions.values())
        if self.sessions:
            self.ranks = self.sessions[max(self.sessions)].ranks
        return read

    def ended_segments(self, size: int) -> set[str]:
        """None: a launch that is broken off has not come to the end of its training."""
        return set()


def size_of(session: PassProgress) -> int | None:
    """The number of ranks of a session as its ranks say it; None before the first has a header."""
    headers = (state.header for state in session.ranks.values())
    sizes = [int(header["size"]) for header in headers if header and "size" in header]
    return max(sizes) if sizes else None


class SessionStalls:
    """Watches the latest session of an elastic launch, as ``StallWatch`` does a launch.

    Args:
        progress: The sessions; read before each look.
        paths: The files of the launch.
        watch: Makes the watch of a session from its files and its number of ranks.
    """

    def __init__(
        self,
        progress: ElasticProgress,
        paths: PassPaths,
        watch: Callable[[PassPaths, int], StallWatch],
    ) -> None:
        self._progress = progress
        self._paths = paths
        self._make = watch
        self._number = 0
        self._watch: StallWatch | None = None

    def look(self) -> None:
        """Look at the ranks of the latest session."""
        latest = max(self._progress.sessions, default=0)
        if latest != self._number:
            size = size_of(self._progress.sessions[latest])
            if size is None:
                return
            self.finish()
            self._number = latest
            self._watch = self._make(self._paths.session(latest), size)
        if self._watch is not None:
            self._watch.look()

    def cut_off(self) -> Stall | None:
        """The stall in which the job was ended, or ended itself; None where no rank waited."""
        return None if self._watch is None else self._watch.cut_off()

    def report_cut_off(self) -> None:
        """Report the stall that the end of the job cut off, where it was too short before."""
        if self._watch is not None:
            self._watch.report_cut_off()

    def blocked(self) -> list[StalledRank]:
        """The ranks of the session whose step has not ended for long, with their stacks."""
        return [] if self._watch is None else self._watch.blocked()

    def unequal(self) -> UnequalBatches | None:
        """The ranks of the session with fewer batches; None where there are none."""
        return None if self._watch is None else self._watch.unequal()

    def finish(self) -> None:
        """The session has ended, and a stall with it."""
        if self._watch is not None:
            self._watch.finish()

    @property
    def must_end(self) -> bool:
        """Whether the launch has to be ended."""
        return self._watch is not None and self._watch.must_end

    def failure(self) -> Failure | None:
        """Why it was ended; None where a stall did not end it."""
        return None if self._watch is None else self._watch.failure()
