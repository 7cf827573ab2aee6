"""Hooks on a model's gradients and its optimizer: when gradients are ready, how long steps block.

All hooks are PyTorch's own, on the objects of the script. Horovod's code is left as it is; only
``synchronize`` of the watched optimizer object is bracketed, because scripts that clip gradients
call it themselves.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from hvdprof.collect.step_marks import OPTIMIZER_PHASE, StepMarks
from hvdprof.collect.time_source import TimeSource

NOT_READY = -1


@dataclass(frozen=True, slots=True)
class WatchedTensor:
    """A gradient: its name as Horovod knows it, its size, and what a rank hands to Horovod."""

    name: str
    size_bytes: int
    sent_bytes: int


class GradientWatch:
    """The hooks of one model and one optimizer.

    Args:
        model: Gives the names of parameters where the optimizer is not a Horovod one.
        optimizer: A torch optimizer, plain or made by ``hvd.DistributedOptimizer``.
        source: Where marks come from.
        marks: The marks of the open step.
    """

    def __init__(self, model: Any, optimizer: Any, source: TimeSource, marks: StepMarks) -> None:
        self._optimizer = optimizer
        self._marks = marks
        self._depth = 0
        self._own_parameters: Any = None
        self._optimizer_begin: Any = None
        self._removers: list[Callable[[], None]] = []
        try:
            self._attach(model, source)
        except Exception:
            self.remove()
            raise

    def _attach(self, model: Any, source: TimeSource) -> None:
        parameters = [
            (name, parameter)
            for name, parameter in _named_parameters(model, self._optimizer)
            if parameter.requires_grad
        ]
        self.tensors = [_described(name, one, self._optimizer) for name, one in parameters]
        self._none_ready: list[Any] = [None] * len(parameters)
        self.ready: list[Any] = list(self._none_ready)
        for index, (_, parameter) in enumerate(parameters):
            hook = _ready_hook(self.ready, index, source.now)
            self._removers.append(parameter.register_post_accumulate_grad_hook(hook).remove)
        self._removers += [
            self._optimizer.register_step_pre_hook(self._before_step).remove,
            self._optimizer.register_step_post_hook(self._after_step).remove,
        ]
        if _is_horovod(self._optimizer) and not _is_adasum(self._optimizer):
            self._bracket_synchronize()
        self._blocks_in_step = _is_adasum(self._optimizer)
        self.begin_step()

    def begin_step(self) -> None:
        """Forget the marks of the step before."""
        self.ready[:] = self._none_ready
        self._depth = 0
        self._own_parameters = self._optimizer.param_groups[0]["params"]

    def remove(self) -> None:
        """Take every hook off; a second call does nothing."""
        while self._removers:
            self._removers.pop()()

    def described(self) -> list[dict[str, Any]]:
        """The watched tensors as the recorder file has them."""
        return [asdict(tensor) for tensor in self.tensors]

    def _before_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._is_local_step(optimizer):
            return
        self._depth += 1
        if self._depth == 1:
            self._optimizer_begin = self._marks.enter(OPTIMIZER_PHASE)
            self._marks.num_waits += self._blocks_in_step

    def _after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._is_local_step(optimizer):
            return
        self._depth -= 1
        if self._depth == 0:
            end = self._marks.leave(OPTIMIZER_PHASE)
            if self._blocks_in_step:
                self._marks.num_waits -= 1
                self._marks.add_blocked(self._optimizer_begin, end)

    def _is_local_step(self, optimizer: Any) -> bool:
        # Horovod's Adasum optimizer steps once per parameter within backward, and swaps the
        # list of parameters while it does so; such a step belongs to backward.
        return optimizer.param_groups[0]["params"] is not self._own_parameters

    def _bracket_synchronize(self) -> None:
        optimizer, marks = self._optimizer, self._marks
        synchronize = optimizer.synchronize

        def bracketed() -> None:
            begin = marks.enter(OPTIMIZER_PHASE)
            marks.num_waits += 1
            try:
                synchronize()
            finally:
                marks.num_waits -= 1
            marks.add_blocked(begin, marks.leave(OPTIMIZER_PHASE))

        optimizer.synchronize = bracketed
        self._removers.append(lambda: vars(optimizer).pop("synchronize", None))


def _ready_hook(ready: list[Any], index: int, now: Callable[[], Any]) -> Callable[[Any], None]:
    def mark_ready(_parameter: Any) -> None:
        # With several backward passes a step the last one counts.
        ready[index] = now()

    return mark_ready


def _is_horovod(optimizer: Any) -> bool:
    return hasattr(optimizer, "_compression") and hasattr(optimizer, "_parameter_names")


def _is_adasum(optimizer: Any) -> bool:
    return _is_horovod(optimizer) and hasattr(optimizer, "_starting_models")


def _named_parameters(model: Any, optimizer: Any) -> Iterator[tuple[str, Any]]:
    names = {parameter: name for name, parameter in model.named_parameters()}
    for i, group in enumerate(optimizer.param_groups):
        for j, parameter in enumerate(group["params"]):
            if _is_horovod(optimizer):
                yield _horovod_name(optimizer, parameter), parameter
            else:
                yield names.get(parameter, f"noname.{i}.{j}"), parameter


def _horovod_name(optimizer: Any, parameter: Any) -> str:
    group = getattr(optimizer, "_p_to_group", {}).get(parameter)
    if group is None:
        return f"allreduce.{optimizer._parameter_names[parameter]}"
    # Horovod names all members of a group after the first.
    place = next(i for i, member in enumerate(group, start=1) if member is parameter)
    return f"grouped_allreduce.{optimizer._parameter_names[group[0]]}_{place}of{len(group)}"


def _described(name: str, parameter: Any, optimizer: Any) -> WatchedTensor:
    size_bytes = parameter.numel() * parameter.element_size()
    return WatchedTensor(name, size_bytes, _sent_bytes(parameter, optimizer))


def _sent_bytes(parameter: Any, optimizer: Any) -> int:
    # At size 1 Horovod's optimizer hands nothing over: it then requires no update from Horovod.
    if not _is_horovod(optimizer) or parameter not in optimizer._requires_update:
        return 0
    compressed, _ = optimizer._compression.compress(parameter.detach().new_empty(0))
    return int(parameter.numel() * compressed.element_size())
