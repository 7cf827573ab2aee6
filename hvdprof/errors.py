"""The exceptions of hvdprof; the command line turns each into one message and an exit code.

HvdprofError                     exit 1   any failure without a class of its own
|-- UsageError                   exit 2   options contradict each other or name something unknown
|-- UnreadableInputError         exit 3   a file or folder holds nothing usable
|-- MissingExtraError            exit 4   a command needs packages that are not installed
|-- EnvironmentNotReadyError     exit 5   this machine cannot run the command
|-- SweepIncompleteError         exit 6   the sweep ended, but a configuration failed
|-- StorageError                 exit 7   a file could not be written, or would be overwritten
|-- BuildFailedError             exit 8   Horovod could not be built
|-- RegressedError               exit 20  a gate of a comparison failed
|-- InconclusiveError            exit 21  a gate could not be decided, without --allow-inconclusive
|-- NotComparableError           exit 22  two runs cannot be compared
|-- SelftestFailedError          exit 23  an injected fault was not found, or something else was
`-- InterruptedRunError          exit 130 Ctrl-C or SIGTERM; what was measured is kept
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class HvdprofError(Exception):
    """A failure that the user can act on.

    Args:
        message: What happened and where, one sentence.
        hint: How to fix it, one sentence or command; empty where no advice exists.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(HvdprofError):
    """The options contradict each other or name something unknown."""

    exit_code = 2


class UnreadableInputError(HvdprofError):
    """A file or folder holds nothing usable."""

    exit_code = 3


class MissingExtraError(HvdprofError):
    """A command needs packages that are not installed."""

    exit_code = 4

    def __init__(self, what: str, *, extra: str) -> None:
        super().__init__(
            f"{what} needs packages that are not installed.", hint=f"pip install 'hvdprof[{extra}]'"
        )


@contextmanager
def needs_extra(what: str) -> Iterator[None]:
    """Around imports for a report: a missing library is a ``MissingExtraError``."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hvdprof"):
            raise
        raise MissingExtraError(what, extra="report") from error


class EnvironmentNotReadyError(HvdprofError):
    """This machine cannot run the command."""

    exit_code = 5


class SweepIncompleteError(HvdprofError):
    """The sweep ended, but at least one configuration failed."""

    exit_code = 6


class StorageError(HvdprofError):
    """A file could not be written, or would have been overwritten."""

    exit_code = 7


class BuildFailedError(HvdprofError):
    """Horovod could not be built."""

    exit_code = 8


class RegressedError(HvdprofError):
    """A condition of ``--fail-on`` failed; the comparison or the analysis is printed."""

    exit_code = 20


class InconclusiveError(HvdprofError):
    """A comparison or a limit could not be decided, and this was to fail; it is printed."""

    exit_code = 21


class NotComparableError(HvdprofError):
    """Two runs cannot be compared; what differs is printed."""

    exit_code = 22


class SelftestFailedError(HvdprofError):
    """An injected fault was not found, a rank without a fault was named, or marks disagree."""

    exit_code = 23


class InterruptedRunError(HvdprofError):
    """Ctrl-C or SIGTERM ended the work; what was measured is kept."""

    exit_code = 130
