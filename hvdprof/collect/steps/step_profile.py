"""Some steps of a rank under torch.profiler, on demand, while the training continues.

The profiler records the thread that starts it, so it is started and stopped in the thread that
trains, at the begin of steps. Its file is written by a thread of its own.
"""

import contextlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hvdprof import units
from hvdprof.rundir.written_file import file_mode

NUM_STEPS = 3
MOST_BYTES = 64_000_000
_LONGEST_END_S = 5.0


class StepProfile:
    """Records ``NUM_STEPS`` steps from a step on.

    Args:
        path: The file to make, ``.json.gz``.
        first_step: The first step, or the next one where that has passed.
        report: Called with a message where no file is made.

    Attributes:
        is_over: Whether it has nothing more to do at the begin of steps.
    """

    def __init__(self, path: Path, first_step: int, report: Callable[[str], None]) -> None:
        self._path, self._first_step, self._report = path, first_step, report
        self._profile: Any = None
        self._num_begun = 0
        self._export: threading.Thread | None = None
        self.is_over = False

    def begins(self, step: int) -> bool:
        """Start or stop where that is due; whether the step that begins is not as others are."""
        if self.is_over or step < self._first_step:
            return False
        try:
            if self._profile is None:
                self._start()
            elif self._num_begun == NUM_STEPS:
                self._stop()
            else:
                self._profile.step()
            self._num_begun += 1
        except Exception as error:
            # Another profiler records, or this torch has none.
            self._give_up(str(error))
        return True

    def end(self) -> None:
        """The recording ends: what is not recorded whole is dropped; raises nothing."""
        if self._profile is not None and not self.is_over:
            self._give_up("the recording has ended")
        if self._export is not None:
            self._export.join(_LONGEST_END_S)

    def _start(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            raise RuntimeError("the script does not use torch")
        if torch.autograd._profiler_enabled():
            raise RuntimeError("another profiler records")
        profiler = torch.profiler
        profile = profiler.profile(schedule=lambda _: profiler.ProfilerAction.RECORD)
        profile.start()
        self._profile = profile

    def _stop(self) -> None:
        self.is_over = True
        self._profile.stop()
        self._export = threading.Thread(target=self._write, name="hvdprof profile", daemon=True)
        self._export.start()

    def _give_up(self, why: str) -> None:
        self.is_over = True
        profile, self._profile = self._profile, None
        with contextlib.suppress(Exception):
            if profile is not None:
                profile.stop()
        with contextlib.suppress(Exception):
            self._report(f"no steps are profiled: {why}")

    def _write(self) -> None:
        written = self._path.with_name(f".{self._path.name}")
        profile, self._profile = self._profile, None
        try:
            profile.export_chrome_trace(str(written))
            if (size := written.stat().st_size) > MOST_BYTES:
                raise ValueError(f"their file is too large ({units.byte_size(size)})")
            written.chmod(file_mode(self._path))
            written.replace(self._path)
        except Exception as error:
            self._give_up(str(error))
        finally:
            written.unlink(missing_ok=True)
