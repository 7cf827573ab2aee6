"""Keeps the sessions of an elastic job apart: the times between two resets of Horovod.

At a reset Horovod shuts down and initialises again within the same processes. Ranks and size
change, processes come and go, and an open timeline is lost. A session begins where
``hvd.elastic.run`` calls the script's function, after the state has been brought to all ranks: that
is the one point which old and new ranks reach together, so there they agree on its number.
"""

import functools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, Protocol, TypeVar

from hvdprof import collect
from hvdprof.collect.clock.clock_exchange import RankGroup
from hvdprof.collect.clock.job_group import horovod_ranks
from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.session_factory import own_identity
from hvdprof.rundir.recording.recorder_format import (
    FINISHED,
    HOSTS_UPDATED,
    LOST_PEER,
    RAISED,
    SessionEndLine,
    SessionLine,
)

P = ParamSpec("P")
R = TypeVar("R")

ELASTIC = "HOROVOD_ELASTIC"
COMMIT = "commit"

_INTERRUPTS = {"HostsUpdatedInterrupt": HOSTS_UPDATED, "HorovodInternalError": LOST_PEER}


@dataclass(frozen=True, slots=True)
class Worker:
    """This process for the launcher: host, slot and rank that it was started with.

    ``started_ns`` is the begin of the process on its monotonic clock.
    """

    host: str
    slot: int
    launch_rank: int
    started_ns: int

    @classmethod
    def from_environment(
        cls, clock: Callable[[], int], environment: Mapping[str, str] = os.environ
    ) -> "Worker":
        """The worker as horovodrun describes it; slot 0 and rank -1 where it does not."""
        slot, rank = environment.get("HOROVOD_LOCAL_RANK", ""), environment.get("HOROVOD_RANK", "")
        return cls(
            host=environment.get("HOROVOD_HOSTNAME", ""),
            slot=int(slot) if slot.isdecimal() else 0,
            launch_rank=int(rank) if rank.isdecimal() else -1,
            started_ns=_started_ns(clock),
        )


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
        """The session is over on this rank: one of the four reasons of the recorder's format."""


class ElasticSessions:
    """Follows the elastic part of Horovod in one process.

    Args:
        hvd: The module ``horovod.torch``.
        recording: Called when sessions begin and end.
        make_group: Connects the ranks of the session that begins.
        clock: The monotonic clock, ns.
    """

    def __init__(
        self,
        hvd: ModuleType,
        recording: SessionRecording,
        make_group: Callable[[], RankGroup] = lambda: horovod_ranks(own_identity()),
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._hvd = hvd
        self._recording = recording
        self._make_group = make_group
        self._clock = clock
        self._worker = Worker.from_environment(clock)
        self._moments: dict[str, int] = {}
        self._number = 0
        self._num_committed = 0

    def hook_horovod(self) -> None:
        """Replace Horovod's elastic functions; they stay replaced for the life of the process."""
        hvd: Any = self._hvd
        elastic = hvd.elastic
        hvd.init = self._timed(hvd.init, "initialised_ns")
        # Looked up in their module at each reset, where a script's own names do not matter.
        elastic.init = self._timed(elastic.init, "initialised_ns")
        elastic.shutdown = self._timed(elastic.shutdown, "shut_down_ns")
        elastic.run = self._in_sessions(elastic.run)
        state = next(kind for kind in elastic.TorchState.__mro__ if "commit" in vars(kind))
        state.commit = self._committing(state.commit)
        state.check_host_updates = _blocked(state.check_host_updates)

    def line(self) -> SessionLine:
        """The ``session`` line of the running session."""
        return {
            "kind": "session",
            "number": self._number,
            "host": self._worker.host,
            "slot": self._worker.slot,
            "launch_rank": self._worker.launch_rank,
            "started_ns": self._worker.started_ns,
            "left_ns": self._moments.get("left_ns"),
            "shut_down_ns": self._moments.get("shut_down_ns"),
            "initialised_ns": self._moments.get("initialised_ns"),
            "entered_ns": self._moments["entered_ns"],
        }

    def end_line(self, why: str) -> SessionEndLine:
        """Its ``session_end`` line."""
        return {
            "kind": "session_end",
            "why": why,
            "monotonic_ns": self._moments["left_ns"],
            "num_steps": self._recording.num_ended,
            "num_committed": self._num_committed,
        }

    def _timed(self, call: Callable[P, R], moment: str) -> Callable[P, R]:
        @functools.wraps(call)
        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            result = call(*args, **kwargs)
            self._moments[moment] = self._clock()
            return result

        return timed

    def _in_sessions(
        self, run: Callable[[Callable[P, R]], Callable[P, R]]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        @functools.wraps(run)
        def run_in_sessions(func: Callable[P, R]) -> Callable[P, R]:
            @functools.wraps(func)
            def session(*args: P.args, **kwargs: P.kwargs) -> R:
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
        # Counted also where the ranks fail to agree: no number is used twice.
        self._number += 1
        own = [self._number, self._recording.num_total]
        try:
            counts = self._make_group().all_gather(own)
            self._number = max(number for number, _ in counts)
            self._recording.begin_session(self._number, max(steps for _, steps in counts))
        except Exception as error:
            # Among them a peer that is lost at this very moment: the script will meet it too.
            print_problem(f"session {self._number} is not recorded: {error}")

    def _leave(self, why: str) -> None:
        self._moments = {"left_ns": self._clock()}
        self._recording.end_session(why)

    def _committing(self, commit: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(commit)
        def timed_commit(*args: P.args, **kwargs: P.kwargs) -> R:
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


def _blocked(call: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(call)
    def waiting(*args: P.args, **kwargs: P.kwargs) -> R:
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


def _started_ns(clock: Callable[[], int]) -> int:
    """When the process began, on its monotonic clock; now, where the kernel does not say."""
    now_ns = clock()
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        begin_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return now_ns - round((time.clock_gettime(time.CLOCK_BOOTTIME) - begin_s) * 1e9)
    except (OSError, ValueError, IndexError, AttributeError):
        return now_ns
