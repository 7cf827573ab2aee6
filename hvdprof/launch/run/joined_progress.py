"""Shows sweeps that run by turns as one.

Tested in ``tests/launch/run/test_interleaved_sweeps.py``.
"""

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall
from hvdprof.launch.run.sweep_progress import SweepProgress
from hvdprof.rundir.manifest import PassRecord


class JoinedProgress:
    """Shows several sweeps as one: it begins and ends with the last of them.

    Attributes:
        num_sweeps: Known at the latest when the first of them begins.
    """

    def __init__(self, shown: SweepProgress, num_sweeps: int) -> None:
        self._shown = shown
        self.num_sweeps = num_sweeps
        self._passes: list[list[PassRecord]] = []
        self._num_ended = 0

    def sweep_started(self, passes: list[PassRecord]) -> None:
        """Show the passes of all once all have begun."""
        self._passes.append(passes)
        if len(self._passes) == self.num_sweeps:
            rounds = zip(*self._passes, strict=False)
            self._shown.sweep_started([record for records in rounds for record in records])

    def repeat_planned(self, passes: list[PassRecord]) -> None:
        """Show what is left, where it is no longer what was planned."""
        self._shown.repeat_planned(passes)

    def pass_started(self, record: PassRecord) -> None:
        """Show it."""
        self._shown.pass_started(record)

    def pass_progressed(self, record: PassRecord, progress: PassProgress) -> None:
        """Show it."""
        self._shown.pass_progressed(record, progress)

    def stalled(self, record: PassRecord, stall: Stall) -> None:
        """Show it."""
        self._shown.stalled(record, stall)

    def pass_ended(self, record: PassRecord) -> None:
        """Show it."""
        self._shown.pass_ended(record)

    def sweep_ended(self) -> None:
        """Show the end of all once."""
        self._num_ended += 1
        if self._num_ended == len(self._passes) == self.num_sweeps:
            self._shown.sweep_ended()
