"""The flat figures of a job inside one of its ranks, from a watcher in a process of its own.

A child process reads and computes; a thread of the rank waits for one short line per second.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import IO

from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.session_factory import RECORDER_DIR
from hvdprof.errors import HvdprofError
from hvdprof.live.flat_figures import flat_figures
from hvdprof.live.sinks.fail_open import reason_of
from hvdprof.live.watcher import LOOK_S, Watcher
from hvdprof.rundir.layout import PassPaths

PERIOD_S = 10.0
_END_S = 2.0


class FigureFeed:
    """Starts the watcher and hands its newest figures on; nothing raises, or waits for it.

    A failure is one line on standard error, and there are no more figures. Without ``folder`` and
    ``HVDPROF_RECORDER_DIR`` nothing is recorded: there are none, and nothing is said.

    Args:
        folder: Where the ranks record; by default ``HVDPROF_RECORDER_DIR``.
        period_s: The least time between two sets of figures.
    """

    def __init__(self, folder: Path | None = None, period_s: float = PERIOD_S) -> None:
        named = os.environ.get(RECORDER_DIR)
        self._folder = folder or (Path(named) if named else None)
        self._period_s = period_s
        self._newest: dict[str, float] = {}
        self._taken_s = -period_s
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._is_off = False

    def start(self) -> None:
        """Start the watcher; once."""
        if self._folder is None or self._process is not None or self._is_off:
            return
        # Without the variables of the recorder: the watcher is no rank.
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("HVDPROF_")
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(self._folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError as error:
            self.fail(error)
            return
        assert self._process.stdout is not None
        read = partial(self._read, self._process, self._process.stdout)
        self._thread = threading.Thread(target=read, name="hvdprof figures", daemon=True)
        self._thread.start()

    def take(self) -> dict[str, float]:
        """The newest figures; empty within a period of the last ones, and while there are none."""
        now_s = time.monotonic()
        if self._is_off or not self._newest or now_s - self._taken_s < self._period_s:
            return {}
        found, self._newest, self._taken_s = self._newest, {}, now_s
        return found

    def fail(self, error: Exception) -> None:
        """Say once why there are no more figures, and end the watcher."""
        if not self._is_off:
            print_problem(f"no more live figures in this framework's logger: {reason_of(error)}.")
        self.close()

    def close(self) -> None:
        """End the watcher."""
        self._is_off = True
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_END_S)

    def _read(self, process: "subprocess.Popen[str]", lines: IO[str]) -> None:
        try:
            with lines:
                for line in lines:
                    said = json.loads(line)
                    if "problem" in said:
                        raise RuntimeError(said["problem"])
                    self._newest = said
            code = process.wait()
            if code and not self._is_off:
                raise RuntimeError(f"the watcher has ended with exit code {code}")
        except Exception as error:
            # A thread of the training's process: nothing may leave it.
            if not self._is_off:
                self.fail(error)


def write_figures(folder: Path, stream: IO[str]) -> None:
    """Write the flat figures of a job, a JSON object per line and look, until it is over.

    Args:
        folder: Where the ranks record; of a launch of a run its events go into that run.
        stream: Takes the lines; ``problem`` in one says why there are no more.
    """
    is_of_run = PassPaths(folder.parent).recorder_folder == folder
    try:
        with closing(Watcher(folder.parent if is_of_run else folder)) as watcher:
            while True:
                snapshot = watcher.look().snapshot
                stream.write(json.dumps(flat_figures(snapshot)) + "\n")
                stream.flush()
                if snapshot.is_over:
                    return
                time.sleep(LOOK_S)
    except HvdprofError as error:
        stream.write(json.dumps({"problem": error.message}) + "\n")


if __name__ == "__main__":
    # The mark of the watcher is removed then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with suppress(BrokenPipeError):
        write_figures(Path(sys.argv[1]).absolute(), sys.stdout)
