"""Where a rank is, as it writes it once it makes no progress."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

IN_LOOP, LEFT_LOOP = "inside", "left"
"""Where a rank is: in its training loop, or behind its end, be it between two epochs."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a rank is.

    ``waits`` says that it is in a collective and waits for others, ``collective`` in which, with
    the name of its tensor, where known. ``phase`` is that of the open step (empty outside phases).
    ``ready`` are the gradients of the step that the rank has submitted, ``missing`` the others.
    ``ended`` says that the recording is over, ``failed`` that the rank raised and ended it so.
    """

    segment: str = ""
    step: int = 0
    is_open: bool = False
    waits: bool = False
    collective: str = ""
    phase: str = ""
    ready: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    ended: bool = False
    failed: bool = False


class Moment(NamedTuple):
    """Where the training is: segment, step (-1 between steps), innermost phase, its thread."""

    segment: str
    step: int
    phase: str
    thread: int


@dataclass(frozen=True, slots=True)
class LoopStanding:
    """Where a rank is in the loop that trains.

    ``loop`` is ``IN_LOOP``, ``LEFT_LOOP``, or empty where no loop is known. ``num_updates`` are its
    updates so far, ``num_epochs`` the times that its data loader has come to its end.
    """

    loop: str = ""
    num_updates: int = 0
    num_epochs: int = 0


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Watched:
    """What is asked of a rank, each from another thread.

    ``standing`` says where it is now, ``at_rest`` is called at each look that sees no change since
    the one before and raises nothing, ``loop`` says where it is in its training loop.
    """

    standing: Callable[[], Standing]
    at_rest: Callable[[], None] = _nothing
    loop: Callable[[], LoopStanding] = LoopStanding
