"""What a destination of live figures and events offers to the watcher.

Tested in ``tests/live/sinks/test_fail_open.py``.
"""

from typing import Protocol

from hvdprof.live.snapshot import Event, Snapshot


class Sink(Protocol):
    """A destination; it may raise or hang, and is dropped then (``fail_open``)."""

    @property
    def name(self) -> str:
        """How messages call it: ``--prom node.prom``."""

    def show(self, snapshot: Snapshot) -> None:
        """Take the figures of a window."""

    def tell(self, event: Event) -> None:
        """Take an event."""

    def close(self) -> None:
        """The job, or the watcher, has ended."""
