"""Horovod's own timeline, started and stopped, and the lines with the times of both."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from hvdprof.collect.clock import job_group
from hvdprof.collect.steps.header import LineWriter
from hvdprof.rundir.written_file import make_run_folders


class TimelineSwitch:
    """Switches Horovod's timeline of one rank.

    Args:
        file: Takes a line at each start and stop, unless it is closed.
        clock: The monotonic clock, ns.
        report: Called with a message after a failure.
    """

    def __init__(
        self, file: LineWriter, clock: Callable[[], int], report: Callable[[str], None]
    ) -> None:
        self._file = file
        self._clock = clock
        self._report = report
        self._runs = False

    def start(self, path: Path) -> None:
        """Let Horovod write from here on; a failure is reported.

        Raises:
            OSError: The recorder file took no more.
        """
        moment = self._moment()
        try:
            make_run_folders(path.parent)
            job_group.start_timeline(str(path))
        except (OSError, ValueError) as error:
            self._report(f"no timeline: {error}")
            return
        self._runs = True
        self._write("start", path, moment)

    def stop(self, path: Path) -> None:
        """End it where it runs, also after the recording: Horovod would write forever.

        Raises:
            OSError: Horovod is no longer initialised, or the recorder file took no more.
            ValueError: Horovod does not know of it.
        """
        if self._runs:
            self._runs = False
            job_group.stop_timeline()
            if not self._file.is_closed:
                self._write("stop", path, self._moment())

    def forget(self) -> None:
        """Horovod is gone, and with it the thread that writes: a call to stop would never end."""
        self._runs = False

    def _write(self, action: str, path: Path, moment: tuple[int, int]) -> None:
        relative = os.path.relpath(path, self._file.path.parent.parent)
        monotonic_ns, wall_ns = moment
        self._file.write(
            {
                "kind": "timeline",
                "action": action,
                "file": relative,
                "monotonic_ns": monotonic_ns,
                "wall_ns": wall_ns,
            }
        )

    def _moment(self) -> tuple[int, int]:
        return self._clock(), time.time_ns()
