"""A function on its way to the ranks and its results on their way back, for any launcher.

The launchers of functions differ in how they reach the ranks. What they send, and what happens with
what comes back, is the same.
"""

import contextlib
import itertools
import os
import pickle
import sys
import threading
import time
import traceback
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hvdprof.collect.auto.recorded_function import RankEnd, RecordedFunction
from hvdprof.errors import InterruptedRunError, StorageError, UsageError
from hvdprof.launch.plan.environment import CHANGING_WHAT_IS_MEASURED
from hvdprof.launch.processes.interruption import interruptible_within_others, to_its_end
from hvdprof.launch.processes.launch_process import (
    POLL_INTERVAL_S,
    Launch,
    LaunchOutcome,
    ProgressTimeout,
    Watch,
)
from hvdprof.rundir.written_file import append_run_bytes, make_run_folders, open_run_file


@dataclass(slots=True)
class FunctionJob:
    """A function with its arguments, and what it returned in the launches so far.

    ``values`` holds what the ranks of a pass returned, pickled, by the name of its folder and then
    by rank; None where a rank has none.
    """

    function: bytes
    values: dict[str, list[bytes | None]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> "FunctionJob":
        """A function made ready for other processes, which need not find it in a module.

        Raises:
            UsageError: It, or an argument, cannot be sent to another process.
        """
        import cloudpickle

        try:
            return cls(cloudpickle.dumps((function, tuple(args), dict(kwargs))))
        # Objects may raise any exception when they are pickled.
        except Exception as error:
            raise UsageError(
                f"{name_of(function)} cannot be sent to other processes: {error}.",
                hint="Create what it needs (files, locks, sessions, GPU tensors) inside it.",
            ) from error

    @contextlib.contextmanager
    def for_ranks(self, launch: Launch) -> Iterator[RecordedFunction]:
        """What the ranks of a launch call; within the block the pass folder carries a mark.

        Raises:
            StorageError: The pass folder cannot be written.
        """
        mark = uuid.uuid4().hex
        seen_mark = launch.paths.seen_mark
        _write_mark(seen_mark, mark)
        try:
            yield RecordedFunction(
                function=self.function,
                environment=dict(launch.job.environment),
                unset=tuple(sorted(CHANGING_WHAT_IS_MEASURED)),
                python_path=tuple(entry or str(Path.cwd()) for entry in sys.path),
                pass_folder=str(launch.paths.folder),
                mark=mark,
            )
        finally:
            seen_mark.unlink(missing_ok=True)

    def take_back(
        self, ends: Sequence[RankEnd], launch: Launch, outcome: LaunchOutcome
    ) -> LaunchOutcome:
        """Store what the ranks sent back; the outcome, failed where a rank raised.

        Raises:
            StorageError: The pass folder cannot be written.
        """
        for end in ends:
            root = launch.paths.folder.resolve()
            for name, data in end.files.items():
                path = (root / name).resolve()
                if not path.is_relative_to(root):
                    raise StorageError(f"Rank {end.rank} named a file outside of the run: {name}.")
                make_run_folders(path.parent)
                _write(path, zlib.decompress(data))
        raised = [end for end in ends if end.error]
        if raised:
            with open_run_file(launch.paths.stderr) as errors:
                errors.writelines(_tagged(raised))
        values: list[bytes | None] = [None] * launch.job.size
        for end in ends:
            values[end.rank] = end.value
        self.values[launch.paths.folder.name] = values
        return replace(outcome, exit_code=1) if raised else outcome


def name_of(function: Callable[..., object]) -> str:
    """What results call a function: its name, or that of its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def returned(values: Sequence[bytes | None]) -> list[Any]:
    """What the ranks of a launch returned, by rank; None where a rank was ended before."""
    return [None if value is None else pickle.loads(value) for value in values]


def _tagged(ends: Sequence[RankEnd]) -> Iterator[str]:
    """The errors of ranks line by line, tagged as those of other launchers are."""
    for end in ends:
        for line in end.error.splitlines():
            yield f"[{end.rank}]<stderr>:{line}{os.linesep}"


def _write_mark(path: Path, mark: str) -> None:
    _write(path, mark.encode())


def _write(path: Path, data: bytes) -> None:
    try:
        path.unlink(missing_ok=True)
        with append_run_bytes(path) as file:
            file.write(data)
    except OSError as error:
        raise StorageError(f"Could not write {path}: {error.strerror}.") from error


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """How a call to a session ended, and what its ranks returned; none where it failed."""

    outcome: LaunchOutcome
    ends: Sequence[RankEnd]


def call_session(
    call: Callable[[], Sequence[RankEnd]], launch: Launch, end: Callable[[], None]
) -> SessionEnd:
    """Call a session and wait, while the launch is watched by another thread.

    Sessions put handlers of signals in place, so the call itself belongs on the main thread.

    Args:
        call: Starts the ranks, waits for them, and returns their results.
        launch: Its watch is looked at; what is raised is appended to its errors.
        end: Ends the ranks from another thread, so that the call raises.

    Raises:
        InterruptedRunError: Ctrl-C or SIGTERM; the ranks have been ended.
    """
    started = time.monotonic()
    for output in (launch.paths.stdout, launch.paths.stderr):
        open_run_file(output).close()
    is_over, has_hung = threading.Event(), threading.Event()
    watching = threading.Thread(
        target=_watch, args=(launch.watch, is_over, has_hung, end), daemon=True
    )
    watching.start()
    exit_code = 0
    ends: tuple[RankEnd, ...] = ()
    try:
        with interruptible_within_others():
            ends = tuple(call())
    except InterruptedRunError:
        to_its_end(end)
        raise
    # Any exception of a session ends the launch.
    except Exception as error:
        exit_code = 1
        with open_run_file(launch.paths.stderr) as errors:
            errors.writelines(traceback.format_exception(error))
    finally:
        is_over.set()
        watching.join()
    launch.watch.progress()
    outcome = LaunchOutcome(exit_code, has_hung.is_set(), time.monotonic() - started)
    return SessionEnd(outcome, ends)


def _watch(
    watch: Watch, is_over: threading.Event, has_hung: threading.Event, end: Callable[[], None]
) -> None:
    timeout = ProgressTimeout(replace(watch, progress=_progress_where_seen(watch)))
    while not is_over.wait(POLL_INTERVAL_S):
        if timeout.is_over():
            has_hung.set()
            end()
            return


def _progress_where_seen(watch: Watch) -> Callable[[], int]:
    """Ranks whose files only come back at the end are never taken for hung."""
    counts = itertools.count(start=-1, step=-1)
    return lambda: watch.progress() or next(counts)
