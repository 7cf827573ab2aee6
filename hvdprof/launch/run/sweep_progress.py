"""What shows the progress of a sweep, of several that run by turns, or of none."""

from typing import Protocol

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall
from hvdprof.rundir.manifest import PassRecord


class SweepProgress(Protocol):
    """Shows the progress of a sweep."""

    def sweep_started(self, passes: list[PassRecord]) -> None:
        """The sweep begins; the passes that are to run, in their order."""

    def repeat_planned(self, passes: list[PassRecord]) -> None:
        """More passes are to run, in their order: the result is not yet known well enough."""

    def pass_started(self, record: PassRecord) -> None:
        """A pass is launched."""

    def pass_progressed(self, record: PassRecord, progress: PassProgress) -> None:
        """Called several times per second while a pass runs."""

    def stalled(self, record: PassRecord, stall: Stall) -> None:
        """Ranks of a pass are blocked on a stalled rank; called once per stall."""

    def pass_ended(self, record: PassRecord) -> None:
        """A pass has ended, well or not; its record says how."""

    def sweep_ended(self) -> None:
        """The sweep is over; called once, also after an interruption or an error."""


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


class SilentProgress:
    """Shows no progress of a sweep."""

    def sweep_started(self, passes: list[PassRecord]) -> None:
        """Shows nothing."""

    def repeat_planned(self, passes: list[PassRecord]) -> None:
        """Shows nothing."""

    def pass_started(self, record: PassRecord) -> None:
        """Shows nothing."""

    def pass_progressed(self, record: PassRecord, progress: PassProgress) -> None:
        """Shows nothing."""

    def stalled(self, record: PassRecord, stall: Stall) -> None:
        """Shows nothing: the run records the stall."""

    def pass_ended(self, record: PassRecord) -> None:
        """Shows nothing."""

    def sweep_ended(self) -> None:
        """Shows nothing."""
