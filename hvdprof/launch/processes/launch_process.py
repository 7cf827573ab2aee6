"""Running one launch to its end: output to files, a watch over progress, and no orphans.

Every process of a launch carries a mark in its environment, by which it is ended
(``marked_processes``): also where hvdprof itself is killed (``orphan_guard``).
"""

import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hvdprof.errors import EnvironmentNotReadyError, InterruptedRunError, StorageError
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.environment import PASS_MARK
from hvdprof.launch.processes.interruption import OrphanGuard, to_its_end
from hvdprof.launch.processes.marked_processes import (
    end_marked,
    marked_processes,
    process_name,
    with_descendants,
)
from hvdprof.launch.processes.own_folders import OwnFolders
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.written_file import append_run_bytes

POLL_INTERVAL_S = 0.5

_LOGS = "torchrun-logs"


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """How a launch ended: the launcher's exit code (negative for a signal), and whether it hung.

    ``failure`` is given where the caller that ran the launch knows the reason, ``launched_ns`` is
    the wall clock when the launcher was started. ``outlived_by`` are the names of the processes
    that kept the launcher from ending after all its ranks had exited: it was ended, so the exit
    code is 0 and says nothing.
    """

    exit_code: int
    hung: bool
    duration_s: float
    failure: Failure | None = None
    launched_ns: int | None = None
    outlived_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is checked while a launch runs.

    ``progress`` returns a number that changes when any rank makes progress; when it stays the same
    for ``timeout_s`` seconds the launch counts as hung and is ended. It is ended as hung at once
    where ``must_end`` returns true after a look, and as over where ``have_exited`` does. ``again``
    is asked with the exit code of a launcher that has ended: whether to start it once more.
    """

    progress: Callable[[], int]
    timeout_s: float
    must_end: Callable[[], bool] = lambda: False
    have_exited: Callable[[], bool] = lambda: False
    again: Callable[[int], bool] = lambda exit_code: False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A job about to start: the command of its launcher with its whole environment.

    ``paths`` are those of its pass, absolute. ``is_on_this_host`` says that all ranks are.
    """

    job: Job
    command: Sequence[str]
    environment: Mapping[str, str]
    paths: PassPaths
    watch: Watch
    is_on_this_host: bool = False


def run_launcher(launch: Launch) -> LaunchOutcome:
    """Run the command of a launch to its end, with its output in the files of the pass.

    Raises:
        EnvironmentNotReadyError: The launcher itself could not be started.
        StorageError: The files for its output cannot be written.
    """
    return run_to_end(
        launch.command,
        launch.environment,
        stdout=launch.paths.stdout,
        stderr=launch.paths.stderr,
        watch=launch.watch,
        is_on_this_host=launch.is_on_this_host,
    )


def run_to_end(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdout: Path,
    stderr: Path,
    watch: Watch,
    is_on_this_host: bool = False,
) -> LaunchOutcome:
    """Run a launcher until it ends or hangs; every process of it is gone afterwards.

    That holds for exceptions too, ``KeyboardInterrupt`` included. It is started anew as long as
    the watch says so.

    Raises:
        EnvironmentNotReadyError: The launcher itself could not be started.
        StorageError: The files for its output cannot be written.
    """
    processes = LaunchProcesses(is_on_this_host=is_on_this_host)
    hung, starts = False, True
    while starts:
        try:
            processes.start(command, environment, stdout=stdout, stderr=stderr)
            hung = _wait(processes, watch)
        except (InterruptedRunError, KeyboardInterrupt):
            # What the ranks have written since the last look is of processes that are still there.
            watch.progress()
            raise
        finally:
            to_its_end(processes.end)
        starts = not hung and watch.again(processes.outcome(hung=False).exit_code)
    return processes.outcome(hung=hung)


class LaunchProcesses:
    """A launcher with all that it starts, found again by the mark in their environment.

    It can be started again after its ``end``.
    """

    def __init__(self, *, is_on_this_host: bool = False) -> None:
        self._is_on_this_host = is_on_this_host
        self._mark = uuid.uuid4().hex
        self._started_s = self._ended_s = time.monotonic()
        self._launched_ns: int | None = None
        self._launcher: subprocess.Popen[bytes] | None = None
        self._guard: OrphanGuard | None = None
        self._folders: OwnFolders | None = None
        self._outlived_by: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """The value of ``PASS_MARK`` in the environment of every process."""
        return self._mark

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], *, stdout: Path, stderr: Path
    ) -> None:
        """Start the launcher, with its output at the end of the files.

        Raises:
            EnvironmentNotReadyError: The launcher itself could not be started.
            StorageError: The files for its output cannot be written.
        """
        self._guard = OrphanGuard.of_mark(self._mark)
        self._folders = OwnFolders(
            environment, stdout.parent / _LOGS, is_on_this_host=self._is_on_this_host
        )
        variables = {**environment, **self._folders.variables, PASS_MARK: self._mark}
        self._started_s, self._launched_ns = time.monotonic(), time.time_ns()
        with _appended(stdout) as out, _appended(stderr) as err:
            self._launcher = _start(command, variables, out, err)

    def has_ended(self, wait_s: float = 0.0) -> bool:
        """Whether the launcher has ended, after at most that many seconds."""
        if self._launcher is None:
            return True
        try:
            self._launcher.wait(timeout=wait_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def note_outlived(self) -> None:
        """The ranks have exited, but the launcher has not: remember which processes are left."""
        launcher = with_descendants([self._launcher.pid] if self._launcher is not None else [])
        left = [pid for pid in marked_processes(self._mark) if pid not in launcher]
        names = dict.fromkeys(filter(None, map(process_name, left)))
        self._outlived_by = tuple(names) or ("the launcher",)

    def end(self) -> None:
        """End every process that is left, the launcher first."""
        # After a signal between the start and the assignment only the mark finds the processes.
        end_marked(self._mark, self._launcher)
        self._ended_s = time.monotonic()
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None
        if self._folders is not None:
            self._folders.remove()
            self._folders = None

    def outcome(self, *, hung: bool) -> LaunchOutcome:
        """How the launch ended; to be asked after ``start`` and ``end``."""
        assert self._launcher is not None
        return LaunchOutcome(
            0 if self._outlived_by else self._launcher.returncode,
            hung,
            self._ended_s - self._started_s,
            launched_ns=self._launched_ns,
            outlived_by=self._outlived_by,
        )


class ProgressTimeout:
    """Checks a launch repeatedly, until it makes no progress for too long."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._seen, self._since = watch.progress(), time.monotonic()

    def is_over(self) -> bool:
        """Look once more; whether the launch is to be ended."""
        now, seen = time.monotonic(), self._watch.progress()
        if self._watch.must_end():
            return True
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since > self._watch.timeout_s


def _appended(path: Path) -> IO[bytes]:
    try:
        return append_run_bytes(path)
    except OSError as error:
        raise StorageError(f"Could not write {path}: {error.strerror}.") from error


def _start(
    command: Sequence[str], environment: Mapping[str, str], out: IO[bytes], err: IO[bytes]
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentNotReadyError(
            f"Could not start {command[0]}: {error.strerror}.", hint="hvdprof doctor"
        ) from error


def _wait(processes: LaunchProcesses, watch: Watch) -> bool:
    timeout = ProgressTimeout(watch)
    while not processes.has_ended(POLL_INTERVAL_S):
        if timeout.is_over():
            return True
        if watch.have_exited():
            processes.note_outlived()
            break
    watch.progress()
    return False
