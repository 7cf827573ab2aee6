"""An progress for callers that want the result alone.

Tested in ``tests/launch/run/test_bench_run.py``.
"""

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall
from hvdprof.rundir.manifest import PassRecord


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
