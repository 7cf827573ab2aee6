"""Keeps the sessions of an elastic job apart: the times between two resets of Horovod.

At a reset Horovod shuts down and initialises again within the same processes. Ranks and size
change, processes come and go, and a timeline that was open is lost. A session begins where
``hvd.elastic.run`` calls the script's function, after the state has been brought to all ranks: that
is the one point which old and new ranks reach together, so there they agree on its number.
"""

import functools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from hvdprof import collect
from hvdprof.collect.clock.clock_exchange import RankGroup
from hvdprof.collect.clock.horovod_group import rank_group
from hvdprof.collect.diagnostics import print_problem
from hvdprof.collect.session_factory import own_identity

ELASTIC = "HOROVOD_ELASTIC"
COMMIT = "commit"
SESSION, SESSION_END = "session", "session_end"

FINISHED, HOSTS_UPDATED, LOST_PEER, RAISED = "finished", "hosts-updated", "lost-peer", "raised"

_MOMENTS = ("left_ns", "shut_down_ns", "initialised_ns", "entered_ns")
_INTERRUPTS = {"HostsUpdatedInterrupt": HOSTS_UPDATED, "HorovodInternalError": LOST_PEER}


class SessionRecording(Protocol):
    """What records the sessions of a process."""

    @property
    def num_total(self) -> int:
        """Updates of the job so far, as this rank counts them."""

    @property
    def num_ended(self) -> int:
        """Updates of the running session."""

    def begin_session(self, number: int, num_before: int) -> None:
        """A session begins on all ranks; ``num_before`` updates were made in earlier ones."""

    def end_session(self, why: str) -> None:
        """The session is over on this rank: one of the four reasons of this module."""


class ElasticSessions:
    """Brackets what the elastic part of Horovod does in one process.

    Args:
        hvd: The module ``horovod.torch``.
        recording: Told when sessions begin and end.
        make_group: Connects the ranks of the session that begins.
        clock: The monotonic clock, ns.
    """

    def __init__(
        self,
        hvd: Any,
        recording: SessionRecording,
        make_group: Callable[[], RankGroup] = lambda: rank_group(own_identity()),
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._hvd = hvd
        self._recording = recording
        self._make_group = make_group
        self._clock = clock
        self._worker = _worker(clock)
        self._moments: dict[str, int] = {}
        self._number = 0
        self._num_committed = 0

    def bracket(self) -> None:
        """Put the brackets on; they stay for the life of the process."""
        hvd, elastic = self._hvd, self._hvd.elastic
        hvd.init = self._timed(hvd.init, "initialised_ns")
        # Looked up in their module at each reset, where a script's own names do not matter.
        elastic.init = self._timed(elastic.init, "initialised_ns")
        elastic.shutdown = self._timed(elastic.shutdown, "shut_down_ns")
        elastic.run = self._in_sessions(elastic.run)
        state = next(kind for kind in elastic.TorchState.__mro__ if "commit" in vars(kind))
        state.commit = self._committing(state.commit)
        state.check_host_updates = _blocked(state.check_host_updates)

    def line(self) -> dict[str, Any]:
        """The keys of the ``session`` line of this session (docs/reference/run_directory.md)."""
        moments = {name: self._moments.get(name) for name in _MOMENTS}
        return {"number": self._number, **self._worker, **moments}

    def end_line(self, why: str) -> dict[str, Any]:
        """The keys of its ``session_end`` line."""
        return {
            "why": why,
            "monotonic_ns": self._moments["left_ns"],
            "num_steps": self._recording.num_ended,
            "num_committed": self._num_committed,
        }

    def _timed(self, call: Callable[..., Any], moment: str) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            self._moments[moment] = self._clock()
            return result

        return timed

    def _in_sessions(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def run_in_sessions(func: Callable[..., Any]) -> Any:
            @functools.wraps(func)
            def session(*args: Any, **kwargs: Any) -> Any:
                self._enter()
                try:
                    result = func(*args, **kwargs)
                except BaseException as error:
                    self._leave(_reason(error))
                    raise
                self._leave(FINISHED)
                return result

            return run(session)

        return run_in_sessions

    def _enter(self) -> None:
        self._moments["entered_ns"] = self._clock()
        self._num_committed = 0
        # Counted also where the ranks do not come to agree: no number is used twice.
        self._number += 1
        own = [self._number, self._recording.num_total]
        try:
            told = self._make_group().all_gather(own)
            self._number = max(number for number, _ in told)
            self._recording.begin_session(self._number, max(steps for _, steps in told))
        except Exception as error:
            # Among them a peer that is lost at this very moment: the script will meet it too.
            print_problem(f"session {self._number} is not recorded: {error}")

    def _leave(self, why: str) -> None:
        self._moments = {"left_ns": self._clock()}
        self._recording.end_session(why)

    def _committing(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(commit)
        def timed_commit(*args: Any, **kwargs: Any) -> Any:
            try:
                with collect.phase(COMMIT):
                    result = commit(*args, **kwargs)
            except Exception as error:
                # Both come behind the copy, when the ranks ask whether hosts have changed.
                if _reason(error) != RAISED:
                    self._note_commit()
                raise
            self._note_commit()
            return result

        return timed_commit

    def _note_commit(self) -> None:
        self._num_committed = self._recording.num_ended
        collect.mark(COMMIT)


def _blocked(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def waiting(*args: Any, **kwargs: Any) -> Any:
        with collect.blocked():
            return call(*args, **kwargs)

    return waiting


def _reason(error: BaseException) -> str:
    """Why a session ends with an exception; the names are those of Horovod's own."""
    names = [kind.__name__ for kind in type(error).__mro__]
    known = [why for name, why in _INTERRUPTS.items() if name in names]
    if known:
        return known[0]
    has_ended_well = isinstance(error, SystemExit) and not error.code
    return FINISHED if has_ended_well else RAISED


def _worker(
    clock: Callable[[], int], environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Who this process is for the launcher: rank and size are those it was started with."""
    rank = environment.get("HOROVOD_RANK", "")
    return {
        "host": environment.get("HOROVOD_HOSTNAME", ""),
        "slot": int(slot) if (slot := environment.get("HOROVOD_LOCAL_RANK", "")).isdecimal() else 0,
        "launch_rank": int(rank) if rank.isdecimal() else -1,
        "started_ns": _started_ns(clock),
    }


def _started_ns(clock: Callable[[], int]) -> int:
    """When the process began, on its monotonic clock; now, where the kernel does not tell."""
    now_ns = clock()
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        begin_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return now_ns - round((time.clock_gettime(time.CLOCK_BOOTTIME) - begin_s) * 1e9)
    except (OSError, ValueError, IndexError, AttributeError):
        return now_ns
