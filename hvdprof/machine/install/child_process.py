"""Running a long command: every line to a log and to a listener, nothing left behind."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

END_GRACE_S = 5.0


def run_logged(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: IO[str],
    on_line: Callable[[str], None],
) -> int:
    """Run a command to its end and return its exit code; 127 where it could not be started.

    Its output, errors included, goes line by line to ``log`` and ``on_line``. When anything ends
    this function early, Ctrl-C above all, the command and all that it started is ended too.
    """
    log.write(f"$ {' '.join(command)}\n")
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        line = f"{command[0]}: {error.strerror}"
        log.write(line + "\n")
        on_line(line)
        return 127
    with _ended_on_failure(process):
        for line in process.stdout or ():
            log.write(line)
            log.flush()
            on_line(line.rstrip("\n"))
        return process.wait()


@contextlib.contextmanager
def _ended_on_failure(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_GRACE_S)
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
