"""Where the marks of a step come from: the host's clock, or events on a GPU's stream.

On a GPU the host runs ahead: a host clock would show when a kernel was launched, not when it ran.
There a mark is a CUDA event, and its time is read once the GPU has passed it, a step later, so
that nothing waits inside a step.
"""

import sys
import time
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Protocol

ANCHOR_INTERVAL_NS = 60_000_000_000

Mark = Any
"""A moment: nanoseconds of the host's clock, or an event of a GPU. Only its source reads it."""


class Event(Protocol):
    """A CUDA event as ``torch.cuda.Event(enable_timing=True)``."""

    def record(self, stream: object = None, /) -> None:
        """Record it on a stream, the current one if none is given."""

    def query(self) -> bool:
        """Whether the GPU has passed it."""

    def synchronize(self) -> None:
        """Wait until the GPU has passed it."""

    def elapsed_time(self, later: "Event", /) -> float:
        """Milliseconds from this event to a later one."""


class TimeSource(Protocol):
    """Marks that cost little to take and become nanoseconds later."""

    def now(self) -> Mark:
        """A mark of this moment."""

    def begin_step(self) -> Mark:
        """A mark that other marks of the step are read against."""

    def is_passed(self, mark: Mark) -> bool:
        """Whether the time of a mark can be read without waiting."""

    def wait_for(self, mark: Mark) -> None:
        """Wait until the time of a mark can be read."""

    def begin_ns(self, begin: Mark) -> int:
        """The monotonic time of a step's begin in ns; marks are read against it from here on."""

    def offset_ns(self, mark: Mark) -> int:
        """Nanoseconds from the last ``begin_ns`` to a mark."""

    def recycle(self, marks: Iterable[Mark]) -> None:
        """Reuse marks that have been read."""

    def anchor(self) -> None:
        """Tie this source to the host's monotonic clock again; may wait, so never within a step."""


class HostClock:
    """The monotonic clock of the host; a mark is its nanoseconds."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.now: Callable[[], int] = clock
        self.begin_step: Callable[[], int] = clock
        self._begin_ns = 0

    def is_passed(self, mark: int) -> bool:
        """True: a mark is its time."""
        return True

    def wait_for(self, mark: int) -> None:
        """Nothing: a mark is its time."""

    def begin_ns(self, begin: int) -> int:
        """The mark itself."""
        self._begin_ns = begin
        return begin

    def offset_ns(self, mark: int) -> int:
        """Nanoseconds since the last ``begin_ns``."""
        return mark - self._begin_ns

    def recycle(self, marks: Iterable[int]) -> None:
        """Nothing: numbers need no reuse."""

    def anchor(self) -> None:
        """Nothing: it is the host's monotonic clock."""


class CudaClock:
    """Events on the current CUDA stream, read a step later.

    ``elapsed_time`` of CUDA is a 32-bit float of milliseconds: exact to a microsecond only over
    seconds. So each step's begin becomes the base of its marks and of the next begin. Every
    ``ANCHOR_INTERVAL_NS`` the base is tied to the host's clock again, at the price of one wait
    for the GPU between two steps.

    Args:
        make_event: Makes an event with ``record``, ``query``, ``synchronize`` and
            ``elapsed_time`` as ``torch.cuda.Event(enable_timing=True)`` has them.
        host_clock: Monotonic nanoseconds of the host.
        record: Records an event where the model computes; on the current stream if not given.
    """

    def __init__(
        self,
        make_event: Callable[[], Event],
        host_clock: Callable[[], int] = time.monotonic_ns,
        record: Callable[[Event], None] = lambda event: event.record(),
    ) -> None:
        self._make_event = make_event
        self._record = record
        self._host_clock = host_clock
        self._free: list[Event] = []
        self._next_anchor: tuple[Event, int] | None = None
        self.anchor()

    def now(self) -> Event:
        """An event, recorded."""
        try:
            # One look at the list: backward runs in threads of its own, one a GPU.
            event = self._free.pop()
        except IndexError:
            event = self._make_event()
        self._record(event)
        return event

    def begin_step(self) -> Event:
        """An event, anchored when the last anchor is too old."""
        if self._host_clock() - self._anchored_at_ns >= ANCHOR_INTERVAL_NS:
            return self._anchored_event()
        return self.now()

    def is_passed(self, mark: Event) -> bool:
        """Whether the GPU has passed the event."""
        return bool(mark.query())

    def wait_for(self, mark: Event) -> None:
        """Wait until the GPU has passed the event."""
        mark.synchronize()

    def begin_ns(self, begin: Event) -> int:
        """Monotonic time of the begin, by its distance from the base before it."""
        if self._next_anchor is not None and self._next_anchor[0] is begin:
            self._base, self._base_ns = self._next_anchor
            self._next_anchor = None
        else:
            self._base_ns += self.offset_ns(begin)
            self._free.append(self._base)
            self._base = begin
        return self._base_ns

    def offset_ns(self, mark: Event) -> int:
        """Nanoseconds from the last begin to the event, on the GPU's clock."""
        return round(float(self._base.elapsed_time(mark)) * 1e6)

    def recycle(self, marks: Iterable[Event]) -> None:
        """Use the events again, each once; the base stays until another one replaces it."""
        distinct = {id(mark): mark for mark in marks}
        self._free.extend(mark for mark in distinct.values() if mark is not self._base)

    def anchor(self) -> None:
        """Wait for the GPU, then read the host's clock: the base of the marks that follow."""
        self._base = self._anchored_event()
        self._base_ns = self._anchored_at_ns
        self._next_anchor = None

    def _anchored_event(self) -> Event:
        event = self.now()
        event.synchronize()
        self._anchored_at_ns: int = self._host_clock()
        self._next_anchor = event, self._anchored_at_ns
        return event


def time_source_of(device: str, clock: Callable[[], int] = time.monotonic_ns) -> TimeSource:
    """The source of marks for a device: ``cpu``, or ``cuda`` with or without an index.

    Raises:
        ValueError: The device is neither.
        LookupError: The device is a GPU, but the script has not imported torch.
    """
    if device == "cpu":
        return HostClock(clock)
    if not device.startswith("cuda"):
        raise ValueError(f"no way to take times on the device {device!r}; cpu and cuda are known")
    make_event, record = gpu_events(device)
    return CudaClock(make_event, clock, record)


def gpu_events(device: str) -> tuple[Callable[[], Event], Callable[[Event], None]]:
    """What makes an event with times, and what records one on the current stream of a GPU.

    Raises:
        ValueError: That is no GPU.
        LookupError: The script has not imported torch.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        raise LookupError("torch is not imported, so no CUDA events can be made")
    number = device.removeprefix("cuda").removeprefix(":")
    if number and not number.isdecimal():
        raise ValueError(f"{device!r} is no GPU; cuda and cuda:0 are")
    # Not on the current GPU: a script may leave that at 0 and name another GPU itself.
    current = current_stream_of(torch, int(number) if number else None)
    return lambda: torch.cuda.Event(enable_timing=True), lambda event: event.record(current())


def current_stream_of(torch: ModuleType, index: int | None) -> Callable[[], object]:
    """What returns the current stream of a GPU, of the current one without an index.

    ``torch.cuda.current_stream`` makes an object from the name of the device at each call: 7 of the
    11 µs of a mark on an H200. The number of the stream is had in 0.1 µs, and its object is made
    once.
    """
    stream_of = torch.cuda.current_stream
    # Also makes the context of the GPU, where the script has not used it yet.
    stream_of(index)
    number_of = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    device_of = getattr(torch._C, "_cuda_getDevice", None)
    if number_of is None or device_of is None:
        return lambda: stream_of(index)
    streams: dict[tuple[int, int], object] = {}

    def current() -> object:
        device = device_of() if index is None else index
        key = device, number_of(device)
        stream = streams.get(key)
        if stream is None:
            stream = streams[key] = stream_of(device)
        return stream

    return current
