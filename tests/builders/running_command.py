"""Commands of hvdprof that run while a test looks on, and what their ranks have recorded so far.

A command here is a process forked from one that has imported hvdprof and knows the installed
Horovod: both take more processor time than all else that a short command does. It has its own
process id, working directory, environment, input, output, signals and exit code; only the start of
the interpreter is shared. Tests of that start use ``python -m hvdprof``.
"""

import contextlib
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.builders.places import ROOT

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.builders.warm_modules"])


class RunningCommand:
    """A command of hvdprof, with the part of ``subprocess.Popen`` that tests use.

    Args:
        arguments: What follows ``hvdprof`` on the command line.
        cwd: Its working directory.
        environment: Variables beside those of the test, or in place of them.
        output: A folder for what it prints.
        text: What it reads from its standard input, through a pipe.
    """

    def __init__(
        self,
        arguments: tuple[str, ...],
        cwd: Path,
        environment: Mapping[str, str],
        output: Path,
        text: str = "",
    ) -> None:
        self._printed = (output / "stdout", output / "stderr")
        self._process = _PROCESSES.Process(
            target=_become_hvdprof,
            args=(arguments, str(cwd), {**os.environ, **environment}, self._printed, text),
        )
        # The server is started by the first command, and imports from its working directory.
        with contextlib.chdir(ROOT):
            self._process.start()

    @property
    def returncode(self) -> int | None:
        """The exit code; minus the signal that ended it; ``None`` while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit code, ``None`` while it runs."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the command alone."""
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it printed to stdout and stderr, once it has ended.

        Raises:
            subprocess.TimeoutExpired: It runs after ``timeout`` seconds.
        """
        self._process.join(timeout)
        if self._process.is_alive():
            raise subprocess.TimeoutExpired("hvdprof", timeout)
        stdout, stderr = (path.read_text(encoding="utf-8") for path in self._printed)
        return stdout, stderr


def _become_hvdprof(
    arguments: tuple[str, ...],
    cwd: str,
    environment: dict[str, str],
    printed: tuple[Path, Path],
    text: str,
) -> None:
    assert "tests.builders.warm_modules" in sys.modules, "the fork server has imported nothing"
    os.environ.clear()
    os.environ.update(environment)
    _read_from_pipe(text.encode())
    for stream, path in enumerate(printed, start=1):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, stream)
        os.close(file)
    os.chdir(cwd)
    sys.argv = ["hvdprof", *arguments]
    from hvdprof.__main__ import main

    main()


def _read_from_pipe(content: bytes) -> None:
    """Let the standard input of this process be a pipe that holds this and ends."""
    assert len(content) < select.PIPE_BUF * 8, "more than a pipe takes without a reader"
    end, begin = os.pipe()
    os.write(begin, content)
    os.close(begin)
    os.dup2(end, 0)
    os.close(end)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115


def hvdprof(
    *arguments: str, cwd: Path | None = None, text: str = "", **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    with started(*arguments, cwd=cwd, text=text, **environment) as command:
        stdout, stderr = command.communicate(timeout=600)
    assert command.returncode is not None
    return subprocess.CompletedProcess(["hvdprof", *arguments], command.returncode, stdout, stderr)


@contextlib.contextmanager
def started(
    *arguments: str, cwd: Path | None = None, text: str = "", **environment: str
) -> Iterator[RunningCommand]:
    """A command that is ended with the block at the latest; in this folder by default."""
    with tempfile.TemporaryDirectory() as folder:
        command = RunningCommand(arguments, cwd or Path.cwd(), environment, Path(folder), text)
        try:
            yield command
        finally:
            command.terminate()
            command.communicate(timeout=120)


def wait_for(condition: Callable[[], Any], seconds: float = 240.0) -> Any:
    """What a condition returns as soon as that is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s")


def pids_in_step(run: Path, step: int) -> dict[int, int]:
    """Process ids by rank, once both have done that many steps of a two-rank pass."""
    for folder in sorted((run / "passes").glob("*np2*/recorder")):
        ranks = [_lines(folder / f"rank-{rank}.jsonl") for rank in (0, 1)]
        if all(sum(line["kind"] == "step" for line in lines) >= step for lines in ranks):
            return {rank: lines[0]["pid"] for rank, lines in enumerate(ranks)}
    return {}


def fill_disk(folder: Path) -> Path:
    """A file that takes all the space that is left on the file system of a folder."""
    path = folder / "filler"
    with contextlib.suppress(OSError), path.open("wb") as filler:
        while True:
            filler.write(bytes(1_000_000))
            filler.flush()
    return path


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    *whole, _ = path.read_text().split("\n")
    return [json.loads(line) for line in whole]
