"""Gradients that FSDP2 reduces: ``fully_shard`` splits the parameters of groups of modules.

A rank waits for the parameters of each group in forward and in backward (all-gather), and for its
share of the gradients (reduce-scatter). ``torch_collectives`` records these waits. What is left
here are the gradients: a sharded one is complete only after its reduce-scatter, so it counts as
ready when the rank submitted that.
"""

import sys
from collections.abc import Callable, Mapping

from hvdprof.collect.engines.torch_collectives import COLLECTIVES
from hvdprof.collect.engines.torch_types import Model, Optimizer, Parameter, parameters_of
from hvdprof.collect.steps.step_marks import StepMarks
from hvdprof.collect.steps.time_source import Mark

_WRAPPED = "FSDPModule"
_SHARDED_IN = ("torch.distributed.fsdp._fully_shard", "torch.distributed._composable.fsdp")


def is_sharded(kind: type) -> bool:
    """Whether ``fully_shard`` made the class of a module."""
    return any(base.__name__ == _WRAPPED for base in kind.__mro__)


def is_fsdp(model: object, optimizer: Optimizer) -> bool:
    """Whether ``fully_shard`` was called on a model, or on modules whose parameters are updated."""
    if is_sharded(type(model)):
        return True
    if not any(name in sys.modules for name in _SHARDED_IN):
        return False
    # Sharded parameters are DTensors in any model.
    return any(hasattr(parameter, "device_mesh") for parameter in parameters_of(optimizer))


class FsdpReduction:
    """The reduction by FSDP2.

    Args:
        model: Gives the names of parameters; it is not kept alive.
    """

    blocks_in_step = False

    def __init__(self, model: Model) -> None:
        self._names = {id(one): name for name, one in model.named_parameters()}

    def name(self, parameter: Parameter) -> str | None:
        """Its name in the model."""
        return self._names.get(id(parameter))

    def sent_bytes(self, parameter: Parameter) -> int:
        """The bytes of the whole gradient, of which each rank keeps a share; 0 on one rank.

        A reduced precision of communication is not known here.
        """
        distributed = sys.modules.get("torch.distributed")
        is_alone = distributed is None or distributed.get_world_size() == 1
        return 0 if is_alone else parameter.numel() * parameter.element_size()

    def seen_bytes(self) -> Mapping[int, int]:
        """Nothing."""
        return {}

    def begin_step(self) -> None:
        """Forget the reduce-scatters of the step before: their marks may be used again."""
        if COLLECTIVES.recording is not None:
            COLLECTIVES.recording.last_reduce_scatter = None

    def attach(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Nothing: the collectives themselves are recorded."""
        return []

    def on_ready(self, marks: StepMarks) -> None:
        """Nothing."""

    def ready_clock(self, now: Callable[[], Mark]) -> Callable[[], Mark]:
        """What marks a gradient as ready when its hook is called, after it was reduced.

        Args:
            now: A mark of this moment, which stands in where no reduce-scatter was seen.
        """

        def submitted() -> Mark:
            recording = COLLECTIVES.recording
            last = None if recording is None else recording.last_reduce_scatter
            return now() if last is None else last

        return submitted
