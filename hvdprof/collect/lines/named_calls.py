"""Calls whose name and times are exact: garbage collections, checkpoints, recompilations.

Hooks note a call when it is over; the sampling thread writes it. Only calls of at least
``SHORTEST_NS`` count, so that a collection of young objects costs nothing but two calls.
"""

import contextlib
import functools
import gc
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import FrameType
from typing import ParamSpec, TypeVar

from hvdprof.collect.guarded_context import replace_call
from hvdprof.collect.lines.sampler import user_line
from hvdprof.collect.lines.user_code import UserCode
from hvdprof.collect.standing import Moment
from hvdprof.rundir.recording.line_format import CallLine

P = ParamSpec("P")
R = TypeVar("R")

SHORTEST_NS = 1_000_000
MOST_CALLS = 256
"""Calls that wait to be written; later ones replace the oldest."""

COLLECTION, RETRY = "garbage collection", "cudaMalloc retry"
RECOMPILATION = "torch.compile recompilation"
SAVING = (
    *(("torch", "save"), ("safetensors.torch", "save_file")),
    *(("torch.distributed.checkpoint", name) for name in ("save", "async_save")),
)
"""Functions that write checkpoints: module and name."""

_RETRIES_EVERY_NS = 2_000_000_000


class NamedCalls:
    """Takes note of calls from ``hook`` to ``remove``."""

    def __init__(
        self,
        moment: Callable[[], Moment],
        user_code: UserCode,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._moment = moment
        self._user_code = user_code
        self.clock = clock
        self._pid = os.getpid()
        self._over: deque[CallLine] = deque(maxlen=MOST_CALLS)
        self._collects_since = 0
        self._compiles_since: dict[int, int] = {}
        self._awaits_compiler = True
        self._num_retries = 0
        self._next_look_ns = 0

    def hook(self) -> None:
        """Take note of calls from here on."""
        _ACTIVE.append(self)
        gc.callbacks.append(self._collects)
        self._await_compiler()
        _replace_loaded()

    def remove(self) -> None:
        """Take note of no more; a second call does nothing."""
        if self in _ACTIVE:
            _ACTIVE.remove(self)
        if self._collects in gc.callbacks:
            gc.callbacks.remove(self._collects)

    def over(self) -> Iterator[CallLine]:
        """The calls that are over since the last time; also looks for those that need a look."""
        self._await_compiler()
        if self.clock() >= self._next_look_ns:
            self._next_look_ns = self.clock() + _RETRIES_EVERY_NS
            _replace_loaded()
            self._look_for_retries()
        while self._over:
            yield self._over.popleft()

    def note(
        self,
        name: str,
        start_ns: int,
        frame: FrameType | None,
        detail: str = "",
        *,
        is_of_script: bool = False,
    ) -> None:
        """Note a call that ends now.

        Args:
            name: Its name.
            start_ns: When it began.
            frame: What called it.
            detail: What it was about.
            is_of_script: Leave out what a library does in a thread of its own: an asynchronous
                checkpoint is written beside the training.
        """
        now_ns = self.clock()
        if now_ns - start_ns < SHORTEST_NS or os.getpid() != self._pid:
            return
        line = user_line(frame, self._user_code)
        if line[0] or not is_of_script or threading.get_ident() == self._moment().thread:
            self._add(name, start_ns, now_ns - start_ns, line, detail)

    def _add(
        self, name: str, start_ns: int, dur_ns: int, line: tuple[str, int], detail: str
    ) -> None:
        moment = self._moment()
        self._over.append(
            {
                "kind": "call",
                "name": name,
                "segment": moment.segment,
                "step": moment.step,
                "start_ns": start_ns,
                "dur_ns": dur_ns,
                "file": line[0],
                "line": line[1],
                "detail": detail,
            }
        )

    def _collects(self, phase: str, info: Mapping[str, int]) -> None:
        # Python prints what it raises, so it raises nothing.
        with contextlib.suppress(Exception):
            if phase == "start":
                self._collects_since = self.clock()
            elif self._collects_since:
                detail = f"generation {info['generation']}, {info['collected']} objects"
                self.note(COLLECTION, self._collects_since, sys._getframe(1), detail)

    def _await_compiler(self) -> None:
        compiler = sys.modules.get("torch._dynamo.callback")
        # Earlier versions of torch have no module, or one without the handler.
        if not self._awaits_compiler or compiler is None:
            return
        if not hasattr(compiler, "callback_handler"):
            return
        self._awaits_compiler = False
        handler = compiler.callback_handler
        handler.register_start_callback(self._compiles)
        handler.register_end_callback(self._compiled)

    def _compiles(self, *_: object) -> None:
        self._compiles_since[threading.get_ident()] = self.clock()

    def _compiled(self, *given: object) -> None:
        # An exception in here would reach the compiler.
        with contextlib.suppress(Exception):
            start_ns = self._compiles_since.pop(threading.get_ident(), 0)
            frame_id = str(getattr(given[0] if given else None, "compile_id", ""))
            # The first compilation of a frame is `1/0`, or `!0/1/0`.
            if start_ns and self in _ACTIVE and frame_id and not frame_id.endswith("/0"):
                self.note(RECOMPILATION, start_ns, sys._getframe(1), f"frame {frame_id}")

    def _look_for_retries(self) -> None:
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return
        number = int(cuda.memory_stats().get("num_alloc_retries", 0))
        more, self._num_retries = number - self._num_retries, number
        if more > 0:
            self._add(RETRY, self.clock(), 0, ("", 0), f"{more} in at most 2 s")


_ACTIVE: list[NamedCalls] = []
_saving = threading.local()
"""Of a thread: whether a checkpoint is being written; calls within that one are its parts."""


def _replace_loaded() -> None:
    """Note what writes checkpoints, in modules that are loaded; once in the life of a process."""
    for module, name in SAVING:
        loaded = sys.modules.get(module)
        function = getattr(loaded, name, None)
        if loaded is not None and function and not hasattr(function, "hvdprof_notes"):
            replace_call(loaded, name, functools.partial(_noting, f"{module}.{name}"))


def _noting(name: str, call: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(call)
    def noting(*args: P.args, **kwargs: P.kwargs) -> R:
        calls = _ACTIVE[-1] if _ACTIVE else None
        if calls is None or getattr(_saving, "is_on", False):
            return call(*args, **kwargs)
        start_ns = calls.clock()
        _saving.is_on = True
        try:
            return call(*args, **kwargs)
        finally:
            _saving.is_on = False
            with contextlib.suppress(Exception):
                detail = _target(args, kwargs)
                calls.note(name, start_ns, sys._getframe(1), detail, is_of_script=True)

    vars(noting)["hvdprof_notes"] = True
    return noting


def _target(args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    """The name of the file that is written, where it is one: the last part alone."""
    names = ("f", "filename", "checkpoint_id")
    named = next((kwargs[name] for name in names if name in kwargs), None)
    given = args[1] if len(args) > 1 else named
    return PurePath(given).name if isinstance(given, str | PurePath) else ""
