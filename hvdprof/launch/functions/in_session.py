"""Launches in a session that the user has open in this process, of Spark or Ray."""

import itertools
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hvdprof.collect.auto.recorded_function import RankEnd
from hvdprof.errors import InterruptedRunError
from hvdprof.launch.processes.interruption import interruptible_within_others, to_its_end
from hvdprof.launch.processes.launch_process import (
    POLL_INTERVAL_S,
    Launch,
    LaunchOutcome,
    ProgressTimeout,
    Watch,
)
from hvdprof.rundir.written_file import open_run_file


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
        _note(error, launch)
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


def _note(error: Exception, launch: Launch) -> None:
    with open_run_file(launch.paths.stderr) as errors:
        errors.writelines(traceback.format_exception(error))
