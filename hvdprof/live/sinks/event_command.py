"""A command of the user for each event, which it gets as JSON on standard input."""

import contextlib
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from dataclasses import asdict

from hvdprof.errors import UsageError
from hvdprof.live.sinks.fail_open import Sink
from hvdprof.live.snapshot import Event, Snapshot
from hvdprof.plain_text import printable

_COMMAND_S = 30.0
_MOST_OUTPUT = 500


class EventCommand(Sink):
    """``--on-event CMD``: started without a shell, one at a time, ended after 30 s.

    Raises:
        UsageError: The command cannot be parsed, or its program is not found.
    """

    limit_s = _COMMAND_S + 1

    def __init__(self, command: str, command_s: float = _COMMAND_S) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UsageError(
                f"--on-event {command!r} cannot be parsed: {error}.", hint="Close its quotes."
            ) from error
        if not self._words or shutil.which(self._words[0]) is None:
            raise UsageError(
                f"--on-event {command!r} names no program that can be started.",
                hint="Give a program in PATH or a file that is executable. No shell reads the "
                "command; where one is needed: --on-event \"sh -c '...'\"",
            )
        self.name = f"--on-event {shlex.quote(self._words[0])}"
        self.where = f"{self._words[0]}, with each event on standard input"
        self._command_s = command_s
        self._job = ""

    def show(self, snapshot: Snapshot) -> None:
        """Remember the name of the job."""
        self._job = snapshot.job

    def report(self, event: Event) -> None:
        """Run the command and wait for it.

        Raises:
            RuntimeError: It failed or was ended.
            OSError: It could not be started.
        """
        text = event_json(event, self._job)
        # Files instead of pipes: what the command leaves behind cannot hold a pipe open.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed:
            given.write(text.encode())
            given.seek(0)
            process = subprocess.Popen(
                self._words,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=printed,
                start_new_session=True,
            )
            try:
                code = process.wait(self._command_s)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise RuntimeError(
                    f"it took longer than {self._command_s:g} s and was ended"
                ) from None
            if code:
                printed.seek(max(0, printed.seek(0, os.SEEK_END) - _MOST_OUTPUT))
                last = printable(printed.read().decode(errors="replace").strip())
                raise RuntimeError(f"exit code {code}" + (f": {last}" if last else ""))


def event_json(event: Event, job: str) -> str:
    """An event as one line of strict JSON; times in seconds, null where unknown."""
    fields = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(event).items()
    }
    return json.dumps({"job": job, **fields}, allow_nan=False) + "\n"
