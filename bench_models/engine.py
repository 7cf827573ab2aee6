"""What exchanges the gradients between the ranks of a job; plain torch, which exchanges none."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol, TypeVar

from torch import nn
from torch.optim import Optimizer

from hvdprof.collect.host_facts import Identity
from hvdprof.errors import UsageError
from hvdprof.rundir.plan import Plan, Segment

T = TypeVar("T")


class Engine(Protocol):
    """An engine that has connected the ranks of this job; ``identity`` is this process's place."""

    identity: Identity

    def learning_rate_scale(self, segment: Segment) -> int:
        """How many times the model's learning rate all ranks together train with."""

    def wrap(
        self, segment: Segment, model: nn.Module, optimizer: Optimizer
    ) -> tuple[nn.Module, Optimizer]:
        """Model and optimizer that exchange gradients; all ranks begin with rank 0's parameters.

        Raises:
            UsageError: The segment asks for a toggle that the engine does not have.
        """

    def slowest(self, seconds: float) -> float:
        """The largest of the values that all ranks call this with."""

    def wait_for_all(self) -> None:
        """Return when all ranks have called this."""

    def timeline(self, segment: Segment, path: Path) -> AbstractContextManager[None]:
        """A context in which the engine writes a timeline, where the segment asks for it."""

    def close(self) -> None:
        """Leave the other ranks; to be called once, when all segments have run."""


class OneProcess:
    """What an engine of a single process has no other rank for."""

    def slowest(self, seconds: float) -> float:
        """The value itself."""
        return seconds

    def wait_for_all(self) -> None:
        """Nothing."""

    def timeline(self, segment: Segment, path: Path) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return nullcontext()

    def close(self) -> None:
        """Nothing."""


class PlainTorch(OneProcess):
    """One rank on its own.

    Raises:
        UsageError: The plan has more than one rank.
    """

    def __init__(self, plan: Plan) -> None:
        if plan.size != 1:
            raise UsageError("Plain torch segments need a plan of size 1: they know no other rank.")
        self.identity = Identity(rank=0, size=1, local_rank=0, local_size=1)

    def learning_rate_scale(self, segment: Segment) -> int:
        """1: the model's own."""
        return 1

    def wrap(
        self, segment: Segment, model: nn.Module, optimizer: Optimizer
    ) -> tuple[nn.Module, Optimizer]:
        """Both as they are."""
        return model, optimizer


def chosen(choices: Mapping[str, T], name: str) -> T:
    """The choice that a name of the plan stands for.

    Raises:
        UsageError: It is not among the choices.
    """
    if name not in choices:
        raise UsageError(f"The plan asks for {name!r}; known are {', '.join(choices)}.")
    return choices[name]
