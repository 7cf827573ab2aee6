"""What shows the progress of a sweep.

Tested in ``tests/launch/run/test_sweep.py``.
"""

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
