"""Collectives of ``torch.distributed`` that a script, or FSDP2 in its name, calls from Python.

The functions are replaced for the life of the process, and record the waits of the session that is
there. DDP reduces in C++ and does not pass here. Under FSDP2 all-gathers and reduce-scatters do. On
a host the rank is blocked in the call itself, or where it waits for the returned ``Work``; on a GPU
where ``stream_waits`` says.
"""

import functools
import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from types import ModuleType
from typing import Any

from hvdprof.collect.engines.stream_waits import (
    ALL_WAIT,
    SOME_WAIT,
    CollectiveCall,
    StreamHooks,
    StreamWaits,
    is_of_fsdp,
)
from hvdprof.collect.guarded_context import harmless
from hvdprof.collect.steps.step_marks import COLLECTIVE_PHASE, StepMarks, WaitMarks
from hvdprof.collect.steps.time_source import HostClock, Mark, TimeSource
from hvdprof.rundir.recording.recorder_format import (
    REDUCE_SCATTER,
    UNSHARD_BACKWARD,
    UNSHARD_FORWARD,
    USER,
)

_NO_GRAPH_TASK = -1


class CollectiveWaits:
    """The waits of one recording in collectives."""

    def __init__(self, marks: StepMarks, source: TimeSource, torch: Any) -> None:
        self.marks = marks
        self._now = source.now
        self.last_reduce_scatter: Mark | None = None
        self.streams = None if isinstance(source, HostClock) else StreamWaits(torch.cuda)
        self._distributed = torch.distributed
        self._graph_task: Callable[[], int] = getattr(
            torch._C, "_current_graph_task_id", lambda: _NO_GRAPH_TASK
        )
        self._owner = get_ident()
        self._submitted: weakref.WeakKeyDictionary[object, WaitMarks] = weakref.WeakKeyDictionary()
        self.remember = harmless(marks, self._remember)
        self.recall = harmless(marks, self._recall)
        self.begin = harmless(marks, functools.partial(marks.enter, COLLECTIVE_PHASE))

    def is_recording(self) -> bool:
        """Whether a call of this thread is a wait of the open step, and not a part of another."""
        marks = self.marks
        if not marks.is_open or marks.num_waits:
            return False
        # On a GPU, backward passes run in threads of autograd.
        return get_ident() == self._owner or self._graph_task() != _NO_GRAPH_TASK

    def move_here(self) -> None:
        """Record the calls of this thread, instead of those of the one that made the recording."""
        self._owner = get_ident()

    def submit(
        self, call: "CollectiveCall", caller: str, group: object, is_async: bool
    ) -> WaitMarks | None:
        """What the rank is about to wait for; None where that is not recorded. Raises nothing."""
        # Not by `harmless`: FSDP2 makes dozens of calls in a step.
        try:
            is_queued = False
            kind = USER
            if is_of_fsdp(caller):
                # On a GPU these calls only queue the collective on a stream of its own.
                is_queued = self.streams is not None
                kind = self._kind_of_fsdp(call)
            is_later = is_async or is_queued
            submitted = self._now() if is_later else self.marks.enter(COLLECTIVE_PHASE)
            if kind == REDUCE_SCATTER:
                self.last_reduce_scatter = submitted
            wait = WaitMarks(kind, submitted, self._size_of(group) if call.all_wait else 0)
            if is_queued and self.streams is not None:
                self.streams.queued(wait, has_work=is_async)
            return wait if is_async or not is_queued else None
        except Exception as error:
            self.marks.failure = error
            return None

    def _kind_of_fsdp(self, call: "CollectiveCall") -> str:
        if not call.gathers:
            return REDUCE_SCATTER
        is_backward = self._graph_task() != _NO_GRAPH_TASK
        return UNSHARD_BACKWARD if is_backward else UNSHARD_FORWARD

    def _size_of(self, group: Any) -> int:
        return int(self._distributed.get_world_size() if group is None else group.size())

    def _remember(self, work: object, wait: WaitMarks) -> None:
        if work is not None:
            self._submitted[work] = wait

    def _recall(self, work: object) -> WaitMarks:
        return self._submitted.get(work, WaitMarks(USER))

    def stream_waits(self, wait: WaitMarks, call: Callable[[], None]) -> None:
        """Mark the wait of the stream that computes, around the call that queues it."""
        begin = self.begin()
        self.marks.num_waits += 1
        try:
            call()
        finally:
            self.end(wait, begin)

    def failed(self, error: Exception) -> None:
        """Keep an exception of the recorder, which does not reach the training."""
        self.marks.failure = error

    def end(self, wait: WaitMarks | None, begin: Mark | None = None) -> None:
        """The rank has waited, since ``begin`` where that is not when it submitted.

        Raises nothing.
        """
        marks = self.marks
        try:
            marks.num_waits -= 1
            if wait is not None:
                end = marks.leave(COLLECTIVE_PHASE)
                marks.add_blocked(wait.submitted if begin is None else begin, end, wait)
        except Exception as error:
            marks.failure = error


class CollectiveHooks:
    """The replaced functions of this process, and the recording that they belong to.

    ``listener`` is called at each collective of all ranks before anything is recorded; None where
    no recording is to begin with one. It raises nothing.
    """

    def __init__(self) -> None:
        self.recording: CollectiveWaits | None = None
        self.listener: Callable[[], None] | None = None
        self._is_hooked = False
        self._streams: StreamHooks | None = None

    def record(self, recording: CollectiveWaits) -> None:
        """Let a recording see the collectives of the script; nothing without torch."""
        self.hook()
        if recording.streams is not None and self._streams is None and self._is_hooked:
            kind = sys.modules["torch"].cuda.Stream
            self._streams = StreamHooks(kind, lambda: self.recording, self._is_compiling)
        self.recording = recording

    def forget(self, recording: CollectiveWaits) -> None:
        """The recording is over."""
        if self.recording is recording:
            self.recording = None

    def hook(self) -> None:
        """Replace the functions, where ``torch.distributed`` is loaded and has them."""
        distributed = sys.modules.get("torch.distributed")
        home = sys.modules.get("torch.distributed.distributed_c10d")
        if self._is_hooked or distributed is None or home is None:
            return
        self._is_hooked = True
        compiler = getattr(sys.modules["torch"], "compiler", None)
        self._is_compiling: Callable[[], bool] = getattr(compiler, "is_compiling", bool)
        for name in (*ALL_WAIT, *SOME_WAIT):
            call = getattr(home, name, None)
            if call is not None:
                _replace_everywhere(name, call, self._recorded(name, call))
        self._hook_waits(home)

    def _recorded(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        described = CollectiveCall.of(name, call)
        shown, all_wait = described.shown, described.all_wait
        group_place, async_place = described.group_place, described.async_place

        @functools.wraps(call)
        def recorded(*args: object, **kwargs: object) -> object:
            # The compiler of torch looks into functions: it must not see more than the call.
            if self._is_compiling():
                return call(*args, **kwargs)
            recording = self.recording
            if recording is None and self.listener is not None and all_wait:
                self.listener()
            if recording is None or not recording.is_recording():
                return call(*args, **kwargs)
            caller = str(sys._getframe(1).f_globals.get("__name__", ""))
            num = len(args)
            group = args[group_place] if num > group_place else kwargs.get("group")
            is_async = bool(args[async_place] if num > async_place else kwargs.get("async_op"))
            wait = recording.submit(described, caller, group, is_async)
            if wait is not None and is_async:
                work = call(*args, **kwargs)
                recording.remember(work, wait)
                return work
            # Also around a call that is not recorded: it waits in calls that are.
            marks = recording.marks
            marks.waits_in = shown
            marks.num_waits += 1
            try:
                return call(*args, **kwargs)
            finally:
                recording.end(wait)

        return recorded

    def _hook_waits(self, home: Any) -> None:
        """Record waits for a ``Work``, and those of the collectives of DTensor."""
        works = getattr(home, "Work", None)
        if works is not None:
            works.wait = self._waiting(works.wait, has_work=True)
        functional = sys.modules.get("torch.distributed._functional_collectives")
        if functional is not None and hasattr(functional, "wait_tensor"):
            call = functional.wait_tensor
            _replace_everywhere("wait_tensor", call, self._waiting(call, has_work=False))

    def _waiting(self, call: Callable[..., object], *, has_work: bool) -> Callable[..., object]:
        @functools.wraps(call)
        def waiting(waited_for: Any, *args: object, **kwargs: object) -> object:
            if self._is_compiling():
                return call(waited_for, *args, **kwargs)
            recording = self.recording
            if recording is None or not recording.is_recording():
                return call(waited_for, *args, **kwargs)
            wait = recording.recall(waited_for) if has_work else WaitMarks(USER)
            begin = recording.begin()
            recording.marks.waits_in = "the wait for a collective", ""
            recording.marks.num_waits += 1
            try:
                return call(waited_for, *args, **kwargs)
            finally:
                recording.end(wait, begin)

        return waiting


COLLECTIVES = CollectiveHooks()
"""Those of this process."""


def _replace_everywhere(name: str, call: object, replaced: object) -> None:
    """Replace a function in all modules that have it by its name, such as by ``from`` imports."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and vars(module).get(name) is call:
            setattr(module, name, replaced)
