"""Collectives of ``torch.distributed``: names, what each call asks, and waits that do not block.

FSDP2 queues each collective on a stream of its own, records an event there behind it, and lets the
stream that computes wait for that event before it uses the result. So a collective is submitted
where its stream reaches it, and the rank is blocked while the stream that computes waits.
(``torch.distributed.fsdp._fully_shard``, PyTorch 2.6 to 2.13.)

``record_event`` and ``wait_event`` of the streams are replaced for the life of the process; calls
that FSDP2 does not make pass through.

No weak reference is made to an event or a stream. PyTorch 2.10 to 2.12 free them without clearing
their weak references (github.com/pytorch/pytorch/pull/183403), and the next garbage collection of
the training process ends with a segmentation fault.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hvdprof.collect.steps.step_marks import Collective, WaitMarks
from hvdprof.rundir.recording.recorder_format import USER

_OF_FSDP = ("torch.distributed.fsdp.", "torch.distributed._composable.fsdp.")

ALL_WAIT = (
    *("all_reduce", "all_reduce_coalesced", "all_gather", "all_gather_coalesced"),
    *("all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_to_all"),
    *("all_to_all_single", "barrier", "monitored_barrier", "reduce_scatter"),
    *("reduce_scatter_single", "reduce_scatter_tensor"),
)
"""Collectives from which no rank returns before every rank of the group has called them."""

SOME_WAIT = (
    *("broadcast", "broadcast_object_list", "gather", "gather_object", "reduce", "scatter"),
    *("scatter_object_list",),
)
"""Collectives from which some ranks return before others have called them."""


def is_of_fsdp(module: str) -> bool:
    """Whether the code of FSDP is in the module of that name."""
    return module.startswith(_OF_FSDP)


@dataclass(slots=True)
class QueuedCollective:
    """A collective on a stream, and whether its wait is recorded already, or elsewhere."""

    wait: WaitMarks
    is_awaited: bool
    recording: "StreamWaits"


_QUEUED = "_hvdprof_queued"
"""The attribute of an event with the collective that it stands for."""


class StreamWaits:
    """Which collectives of one recording the events of streams stand for.

    Args:
        cuda: The module ``torch.cuda``, or one with its ``current_stream``.
    """

    def __init__(self, cuda: Any) -> None:
        self._current_stream = cuda.current_stream
        self._last_on: dict[object, QueuedCollective] = {}

    def queued(self, wait: WaitMarks, *, has_work: bool) -> None:
        """A collective is queued on the current stream.

        Args:
            wait: What the rank will wait for.
            has_work: Whether it waits for a ``Work``, and not for an event.
        """
        self._last_on[self._current_stream()] = QueuedCollective(
            wait, is_awaited=has_work, recording=self
        )

    def recorded(self, stream: object, event: object) -> None:
        """FSDP2 recorded an event on a stream: behind the last collective there, if any."""
        last = self._last_on.get(stream)
        if last is not None:
            setattr(event, _QUEUED, last)

    def computes(self, stream: Any) -> bool:
        """Whether a stream is the one that computes: FSDP2 makes its waits outside of others."""
        return bool(stream == self._current_stream(stream.device))

    def awaited(self, event: object) -> WaitMarks | None:
        """What a stream that computes waits for with an event; None after the first such wait.

        A collective that was queued before the recording began is not known.
        """
        collective: QueuedCollective | None = getattr(event, _QUEUED, None)
        if collective is None or collective.recording is not self:
            return WaitMarks(USER)
        if collective.is_awaited:
            return None
        collective.is_awaited = True
        return collective.wait


class StreamRecording(Protocol):
    """A recording that marks waits."""

    @property
    def streams(self) -> StreamWaits | None:
        """Its waits of streams; None on a host."""

    def is_recording(self) -> bool:
        """Whether a call of this thread is a wait of the open step."""

    def stream_waits(self, wait: WaitMarks, call: Callable[[], None]) -> None:
        """Mark the wait around the call that queues it."""

    def failed(self, error: Exception) -> None:
        """Keep an exception of the recorder, which does not reach the training."""


class StreamHooks:
    """The replaced methods of a class of streams."""

    def __init__(
        self,
        kind: Any,
        recording: Callable[[], StreamRecording | None],
        is_compiling: Callable[[], bool],
    ) -> None:
        self._recording = recording
        self._is_compiling = is_compiling
        kind.record_event = self._recorded(kind.record_event)
        kind.wait_event = self._waiting(kind.wait_event)

    def _of_fsdp(self) -> tuple[StreamRecording, StreamWaits] | None:
        """The recording, where FSDP2 makes the call of the function that asks."""
        recording = self._recording()
        if recording is None or recording.streams is None or self._is_compiling():
            return None
        if not is_of_fsdp(str(sys._getframe(2).f_globals.get("__name__", ""))):
            return None
        return (recording, recording.streams) if recording.is_recording() else None

    def _recorded(self, call: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(call)
        def recorded(stream: object, *args: object, **kwargs: object) -> object:
            event = call(stream, *args, **kwargs)
            found = self._of_fsdp()
            if found is not None:
                recording, streams = found
                try:
                    streams.recorded(stream, event)
                except Exception as error:
                    recording.failed(error)
            return event

        return recorded

    def _waiting(self, call: Callable[[object, object], None]) -> Callable[..., None]:
        @functools.wraps(call)
        def waiting(stream: object, event: object) -> None:
            found = self._of_fsdp()
            wait = None
            if found is not None:
                recording, streams = found
                try:
                    wait = streams.awaited(event) if streams.computes(stream) else None
                except Exception as error:
                    recording.failed(error)
            if found is None or wait is None:
                call(stream, event)
            else:
                found[0].stream_waits(wait, lambda: call(stream, event))

        return waiting


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A function of ``torch.distributed``: what is asked at each of its calls, found out once.

    ``shown`` is how a rank that hangs in it is described. ``group_place`` and ``async_place`` are
    the places of these arguments where they are not given by name.
    """

    shown: Collective
    all_wait: bool
    gathers: bool
    group_place: int
    async_place: int

    @classmethod
    def of(cls, name: str, function: Callable[..., object]) -> "CollectiveCall":
        """That of a function with this name."""
        places = {one: place for place, one in enumerate(inspect.signature(function).parameters)}
        return cls(
            shown=(name, ""),
            all_wait=name in ALL_WAIT,
            gathers=name.startswith("all_gather"),
            group_place=places.get("group", len(places)),
            async_place=places.get("async_op", len(places)),
        )
