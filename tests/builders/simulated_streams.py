"""Streams of a GPU in simulated time: the host queues in no time, each stream works on its own.

They stand in for ``torch.cuda`` where code asks for streams and events, so that torch's own FSDP2
runs over them on a CPU. Every wait of the stream that computes is known.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class SimulatedEvent:
    """An event; not recorded until ``record``."""

    gpu: "SimulatedGpu"
    passed_ns: int | None = None

    def __init__(self, *, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing

    def record(self, stream: Any = None) -> None:
        stream = self.gpu.current if stream is None else stream
        self.passed_ns = stream.queue(0)

    def wait(self, stream: Any = None) -> None:
        stream = self.gpu.current if stream is None else stream
        if self.passed_ns is not None:
            stream.hold_until(self.passed_ns)

    def query(self) -> bool:
        return self.passed_ns is not None and self.gpu.host_ns >= self.passed_ns

    def synchronize(self) -> None:
        self.gpu.host_ns = max(self.gpu.host_ns, self.passed_ns or 0)

    def elapsed_time(self, later: Any) -> float:
        assert self.enable_timing and later.enable_timing
        assert self.query() and later.query(), "read before the GPU has passed it"
        return (later.passed_ns - self.passed_ns) / 1e6


class SimulatedStream:
    """A stream; ``free_ns`` is when all that is queued on it is done."""

    gpu: "SimulatedGpu"
    device = 0

    def __init__(self, priority: int = 0) -> None:
        self.free_ns = 0

    def queue(self, length_ns: int) -> int:
        self.free_ns = max(self.free_ns, self.gpu.host_ns) + length_ns
        return self.free_ns

    def hold_until(self, moment_ns: int) -> None:
        begin_ns = self.queue(0)
        self.free_ns = max(begin_ns, moment_ns)
        if self is self.gpu.compute:
            self.gpu.blocked.append((begin_ns, self.free_ns))

    def record_event(self, event: Any = None) -> Any:
        event = self.gpu.Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        self.wait_event(stream.record_event())


class SimulatedGpu:
    """A module such as ``torch.cuda``; all times in ns.

    ``blocked`` are the begin and end of each wait for an event of the stream that computes.
    """

    def __init__(self, start_ns: int = 1_000_000) -> None:
        self.host_ns = start_ns
        self.blocked: list[tuple[int, int]] = []
        self.Event: Any = type("Event", (SimulatedEvent,), {"gpu": self})
        self.Stream: Any = type("Stream", (SimulatedStream,), {"gpu": self})
        self.compute = self.current = self.Stream()

    def current_stream(self, device: object = None) -> Any:
        """The stream on which work is queued now."""
        return self.current

    @contextmanager
    def stream(self, one: Any) -> Iterator[None]:
        """Queue work on that stream meanwhile."""
        before, self.current = self.current, one
        try:
            yield
        finally:
            self.current = before

    def work(self, length_ns: int) -> None:
        """Queue a kernel on the current stream."""
        self.current.queue(length_ns)

    def synchronize(self) -> None:
        """The host waits for the stream that computes."""
        self.host_ns = max(self.host_ns, self.compute.free_ns)
