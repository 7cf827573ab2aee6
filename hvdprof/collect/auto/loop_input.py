"""Times the fetches of a loop that reads batches from a generator, or by ``next``.

From Python 3.12 on, ``sys.monitoring`` calls back at single instructions of one function, so that
no other code of the script becomes slower.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from typing import Protocol

from hvdprof.collect.auto.training_loop import Fetches, Place, fetches_of, places_of

LEARNING_UPDATES = 4
"""First updates that show the loop; a script that trains in none is not watched further."""

TOOL = "hvdprof"
"""Its name in ``sys.monitoring``."""


class _Events(Protocol):
    INSTRUCTION: int
    BRANCH: int
    CALL: int
    C_RETURN: int
    C_RAISE: int


class Monitoring(Protocol):
    """The module ``sys.monitoring``, from Python 3.12 on."""

    DISABLE: object
    events: _Events

    def use_tool_id(self, number: int, name: str, /) -> None:
        """Take a number; a ``ValueError`` where another tool has it."""

    def get_tool(self, number: int, /) -> str | None:
        """The name of the tool that has it."""

    def free_tool_id(self, number: int, /) -> None:
        """Give it back."""

    def register_callback(
        self, number: int, event: int, call: Callable[..., object] | None, /
    ) -> object:
        """Call a function at an event."""

    def set_local_events(self, number: int, code: CodeType, events: int, /) -> None:
        """Choose the events of one function."""


class InputRecording(Protocol):
    """What records the fetches."""

    def is_here(self) -> bool:
        """Whether this thread is recorded right now."""

    def fetching(self) -> AbstractContextManager[None]:
        """The rank waits for its next batch."""

    def fails(self, error: Exception) -> None:
        """End the recording after a failure of the recorder."""


class LoopInput:
    """Learns from the first updates which loop trains, and times what it fetches.

    ``loop`` is that loop, None before it is known or where it has none.

    Within a fetch, a data loader may record its own: both are one piece of the phase.

    Args:
        recording: Its context is around every fetch of the thread that is recorded.
        report: Called with what is not recorded, and why.
        monitoring: The module ``sys.monitoring``; None before Python 3.12, where nothing is timed.
    """

    def __init__(
        self,
        recording: InputRecording,
        report: Callable[[str], None],
        monitoring: Monitoring | None,
    ) -> None:
        self._recording, self._report = recording, report
        self._monitoring = monitoring
        self._num_left = LEARNING_UPDATES
        self.loop: Fetches | None = None
        self._backward: list[Place] = []
        self._tool: int | None = None
        self._fetches: Fetches | None = None
        self._open: AbstractContextManager[None] | None = None

    def computes_gradients(self) -> None:
        """A backward pass begins, called from the frames of the script."""
        if self._num_left:
            self._backward = places_of(sys._getframe(1))

    def updates(self) -> None:
        """An update begins, called from the frames of the script."""
        if not self._recording.is_here():
            return
        # Also where an exception of the iterator ended a fetch without a call back.
        self._fetched()
        if not self._num_left:
            return
        self._num_left -= 1
        found = fetches_of(self._backward, places_of(sys._getframe(1)))
        if found is not None:
            self._num_left, self.loop = 0, found
            self._watch(found)
        if not self._num_left:
            self._backward = []

    def remove(self) -> None:
        """Call back no more."""
        self._num_left, self._backward = 0, []
        self._fetched()
        monitoring, tool, fetches = self._monitoring, self._tool, self._fetches
        if monitoring is None or tool is None or fetches is None:
            return
        self._tool = None
        if monitoring.get_tool(tool) != TOOL:
            return
        monitoring.set_local_events(tool, fetches.code, 0)
        for event in self._calls():
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)

    def _watch(self, fetches: Fetches) -> None:
        monitoring = self._monitoring
        if monitoring is None:
            return
        self._tool = _free_tool(monitoring)
        if self._tool is None:
            self._report(
                "batches that come from no DataLoader are in no phase: other tools, such as a "
                "debugger or a profiler, have taken sys.monitoring"
            )
            return
        self._fetches = fetches
        for event, call in self._calls().items():
            monitoring.register_callback(self._tool, event, call)
        events = monitoring.events
        of_loops = events.INSTRUCTION | events.BRANCH if fetches.iterations else 0
        monitoring.set_local_events(self._tool, fetches.code, events.CALL | of_loops)

    def _calls(self) -> dict[int, Callable[..., object]]:
        assert self._monitoring is not None
        events = self._monitoring.events
        return {
            events.INSTRUCTION: self._begins,
            events.BRANCH: self._branched,
            events.CALL: self._called,
            events.C_RETURN: self._returned,
            events.C_RAISE: self._returned,
        }

    def _begins(self, code: CodeType, offset: int) -> object:
        if self._fetches is None or offset not in self._fetches.iterations:
            return self._disabled
        self._fetch()
        return None

    def _branched(self, code: CodeType, offset: int, destination: int) -> object:
        if self._fetches is None or offset not in self._fetches.iterations:
            return self._disabled
        self._fetched()
        return None

    def _called(self, code: CodeType, offset: int, function: object, first: object) -> object:
        fetches = self._fetches
        is_in_loop = fetches is not None and fetches.first <= offset <= fetches.last
        if not is_in_loop or function is not next:
            return self._disabled
        self._fetch()
        return None

    def _returned(self, code: CodeType, offset: int, function: object, first: object) -> object:
        # Only of calls that are not disabled.
        if function is next:
            self._fetched()
        return None

    @property
    def _disabled(self) -> object:
        """Ends the events of one instruction."""
        return None if self._monitoring is None else self._monitoring.DISABLE

    def _fetch(self) -> None:
        try:
            self._fetched()
            if self._recording.is_here():
                context = self._recording.fetching()
                context.__enter__()
                self._open = context
        except Exception as error:
            self._recording.fails(error)

    def _fetched(self) -> None:
        if self._open is None or not self._recording.is_here():
            return
        context, self._open = self._open, None
        try:
            context.__exit__(None, None, None)
        except Exception as error:
            self._recording.fails(error)


def interpreter_monitoring() -> Monitoring | None:
    """``sys.monitoring``; None before Python 3.12."""
    found: Monitoring | None = getattr(sys, "monitoring", None)
    return found


def _free_tool(monitoring: Monitoring) -> int | None:
    # That of profilers, and two that no kind of tool has a right to.
    for number in (2, 3, 4):
        try:
            monitoring.use_tool_id(number, TOOL)
        except ValueError:
            continue
        return number
    return None
