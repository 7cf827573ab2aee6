"""The models that a script wraps by ``DistributedDataParallel`` or shards by ``fully_shard``."""

import contextlib
import functools
import gc
import weakref
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from hvdprof.collect.auto.ddp_arguments import DdpNotes, changed_arguments
from hvdprof.collect.engines.ddp_reduction import DdpModel
from hvdprof.collect.engines.fsdp_reduction import is_fsdp, is_sharded
from hvdprof.collect.engines.torch_types import Model, Optimizer, parameters_of


class DdpModels:
    """Wrapped models in the order in which the script made them, none of them kept alive.

    Args:
        fails: Called with an exception of this part, which never reaches the script.
    """

    def __init__(self, fails: Callable[[Exception], None]) -> None:
        self._fails = fails
        self._notes = DdpNotes()
        self._made: list[weakref.ref[DdpModel]] = []

    def hook(self, kind: Any) -> None:
        """Note each model that the class, or a subclass of it, wraps from here on.

        It is wrapped with the arguments that the launch asks for.
        """
        make = kind.__init__

        @functools.wraps(make)
        def make_and_note(model: Any, *args: object, **kwargs: object) -> None:
            # Wrong arguments are refused by the class itself.
            with contextlib.suppress(TypeError):
                args, kwargs = changed_arguments(make, args, kwargs)
            make(model, *args, **kwargs)
            try:
                self._made.append(weakref.ref(model))
                self._notes.wrapped(model, make, args, kwargs)
            except Exception as error:
                self._fails(error)

        kind.__init__ = make_and_note

    def __bool__(self) -> bool:
        return bool(self._made)

    def model_of(self, optimizer: Optimizer) -> DdpModel | None:
        """The model that holds most of the parameters that an optimizer trains; None without."""
        trained = {
            id(parameter) for parameter in parameters_of(optimizer) if parameter.requires_grad
        }
        shares = [
            (sum(id(one) in trained for _, one in model.module.named_parameters()), model)
            for made in self._made
            if (model := made()) is not None
        ]
        most, model = max(shares, key=lambda share: share[0], default=(0, None))
        return model if most else None

    def optimizers(self, torch: ModuleType, first: Optimizer) -> list[Optimizer]:
        """The optimizers that train wrapped models, ``first`` in front.

        An object of a framework around another optimizer is not a further one.
        """
        found = [first]
        taken = {id(parameter) for parameter in parameters_of(first)}
        for complete_optimizer in _complete_optimizers(torch):
            parameters = {id(parameter) for parameter in parameters_of(complete_optimizer)}
            if parameters & taken or self.model_of(complete_optimizer) is None:
                continue
            taken |= parameters
            found.append(complete_optimizer)
        return found


def _complete_optimizers(torch: ModuleType) -> Iterable[Any]:
    base = torch.optim.Optimizer
    for instance in gc.get_objects():
        # By its type: an object may answer for its class in a way of its own.
        if issubclass(type(instance), base) and "_optimizer_step_post_hooks" in vars(instance):
            yield instance


def fsdp_model_of(optimizer: Optimizer) -> Model | None:
    """The outermost sharded module whose parameters an optimizer trains.

    Of several it is the one with most of them. None where no sharded module has any, or where the
    parameters are not sharded.
    """
    if not is_fsdp(None, optimizer):
        return None
    trained = {id(parameter) for parameter in parameters_of(optimizer) if parameter.requires_grad}
    largest, found = 0, None
    for instance in gc.get_objects():
        # A module whose constructor is still running has no parameters to ask for.
        if not is_sharded(type(instance)) or "_parameters" not in vars(instance):
            continue
        num = sum(id(parameter) in trained for _, parameter in instance.named_parameters())
        if num > largest:
            largest, found = num, instance
    return found
