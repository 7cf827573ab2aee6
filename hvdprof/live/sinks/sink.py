"""What a destination of live figures and events offers to the watcher."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hvdprof.live.snapshot import Event, Snapshot
from hvdprof.plain_text import printable, shortened
from hvdprof.rundir.masking import mask_text

_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Summary:
    """What is sent of a finished run.

    Args:
        figures: Finite numbers by name.
        texts: Sentences by name.
        report: The HTML report, a file that the caller removes.
    """

    figures: Mapping[str, float]
    texts: Mapping[str, str]
    report: Path


class Sink(Protocol):
    """A destination; it may raise or hang, and is dropped then (``fail_open``).

    What a destination has no use for, it inherits from here: it does nothing.
    """

    name: str
    """How messages call it: ``--prom node.prom``."""

    where: str
    """Where a user finds what it writes: a file, an address, the name of a run."""

    limit_s: float = 0.5
    """From here on, a call counts as hung; longer for a sink that ends its calls itself."""

    def show(self, snapshot: Snapshot) -> None:
        """Take the figures of a window."""

    def report(self, event: Event) -> None:
        """Take an event."""
        return

    def publish(self, summary: Summary) -> None:
        """Take a finished run."""
        return

    def close(self) -> None:
        """The job, or the watcher, has ended."""
        return


def reason_of(error: Exception) -> str:
    """What an exception of any library says: one line without secrets and full stop."""
    text = " ".join(str(error).split()) or type(error).__name__
    return shortened(printable(mask_text(text)), _LONGEST_REASON).rstrip(".")
