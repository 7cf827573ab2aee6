"""What the recorder touches of torch, Horovod and CUDA, without them: time moves by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class FakeTime:
    """A clock that moves only by ``advance``, ns."""

    def __init__(self, start_ns: int = 1_000_000) -> None:
        self.now_ns = start_ns

    def __call__(self) -> int:
        return self.now_ns

    def advance(self, ns: int) -> None:
        self.now_ns += ns


class FakeGpu:
    """A GPU whose stream reaches an event ``lag_ns`` after the host has recorded it.

    ``drift`` is what its clock runs faster than the host's. ``num_waits`` counts how often the
    host had to wait for an event.
    """

    def __init__(self, time: FakeTime, lag_ns: int = 0, drift: float = 0.0) -> None:
        self.time = time
        self.lag_ns = lag_ns
        self.drift = drift
        self.num_waits = 0
        self.num_events = 0

    def make_event(self) -> "FakeEvent":
        self.num_events += 1
        return FakeEvent(self)


class FakeEvent:
    """A CUDA event as ``torch.cuda.Event(enable_timing=True)`` is one."""

    def __init__(self, gpu: FakeGpu) -> None:
        self._gpu = gpu
        self.passed_at_ns: int | None = None

    def record(self) -> None:
        self.passed_at_ns = self._gpu.time() + self._gpu.lag_ns

    def query(self) -> bool:
        assert self.passed_at_ns is not None, "queried before it was recorded"
        return self._gpu.time() >= self.passed_at_ns

    def synchronize(self) -> None:
        if not self.query():
            self._gpu.num_waits += 1
            self._gpu.time.now_ns = self.passed_at_ns

    def elapsed_time(self, later: "FakeEvent") -> float:
        if not self.query() or not later.query():
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (later.passed_at_ns - self.passed_at_ns) * (1 + self._gpu.drift) / 1e6


class Removable:
    """A hook's handle."""

    def __init__(self, hooks: list[Any], hook: Any) -> None:
        self._hooks, self._hook = hooks, hook

    def remove(self) -> None:
        self._hooks.remove(self._hook)


@dataclass(eq=False)
class FakeParameter:
    """A parameter of ``num`` elements of ``width`` bytes."""

    num: int
    width: int = 4
    requires_grad: bool = True
    hooks: list[Callable[[Any], None]] = field(default_factory=list)

    def numel(self) -> int:
        return self.num

    def element_size(self) -> int:
        return self.width

    def detach(self) -> "FakeParameter":
        return self

    def new_empty(self, num: int) -> "FakeParameter":
        return FakeParameter(num, self.width)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> Removable:
        self.hooks.append(hook)
        return Removable(self.hooks, hook)

    def accumulate(self) -> None:
        for hook in list(self.hooks):
            hook(self)


class FakeModel:
    """Parameters by name."""

    def __init__(self, **parameters: FakeParameter) -> None:
        self.parameters = parameters

    def named_parameters(self):
        return iter(self.parameters.items())


class FakeOptimizer:
    """A plain torch optimizer whose update takes ``update_ns``."""

    def __init__(self, model: FakeModel, time: FakeTime, update_ns: int = 5) -> None:
        self.param_groups = [{"params": list(model.parameters.values())}]
        self.time, self.update_ns = time, update_ns
        self.pre_hooks: list[Any] = []
        self.post_hooks: list[Any] = []
        self.num_updates = 0

    def register_step_pre_hook(self, hook) -> Removable:
        self.pre_hooks.append(hook)
        return Removable(self.pre_hooks, hook)

    def register_step_post_hook(self, hook) -> Removable:
        self.post_hooks.append(hook)
        return Removable(self.post_hooks, hook)

    def step(self) -> None:
        self._hooked(self._update)

    def _update(self) -> None:
        self.num_updates += 1
        self.time.advance(self.update_ns)

    def _hooked(self, body: Callable[[], None]) -> None:
        for hook in list(self.pre_hooks):
            assert hook(self, (), {}) is None
        body()
        for hook in list(self.post_hooks):
            assert hook(self, (), {}) is None


class HalfCompression:
    """Compression to two bytes an element, as Horovod's own."""

    __module__ = "horovod.torch.compression"

    @staticmethod
    def compress(tensor: FakeParameter):
        return FakeParameter(tensor.num, 2), None


class NoCompression:
    """No compression, as Horovod's own."""

    __module__ = "horovod.torch.compression"

    @staticmethod
    def compress(tensor: FakeParameter):
        return tensor, None


class FakeHorovodOptimizer(FakeOptimizer):
    """As ``hvd.DistributedOptimizer``: the hooks fire twice a step."""

    def __init__(self, model, time, *, wait_ns: int = 100, compression=NoCompression) -> None:
        super().__init__(model, time)
        self.wait_ns = wait_ns
        self._compression = compression
        self._parameter_names = {p: name for name, p in model.parameters.items()}
        self._requires_update = {p for p in self._parameter_names if p.requires_grad}
        self._p_to_group: dict[Any, tuple[Any, ...]] = {}
        self._synchronizes = True

    def synchronize(self) -> None:
        self.time.advance(self.wait_ns)

    def step(self) -> None:
        self._hooked(self._outer)

    def step_without_synchronize(self) -> None:
        self._synchronizes = False
        self.step()
        self._synchronizes = True

    def _outer(self) -> None:
        if self._synchronizes:
            self.synchronize()
        super().step()


class FakeAdasumOptimizer(FakeHorovodOptimizer):
    """As Horovod's Adasum one: a local step a parameter in backward, one wait at the end."""

    _starting_models = ()

    def local_step(self, parameter: FakeParameter) -> None:
        group = self.param_groups[0]
        stashed, group["params"] = group["params"], [parameter]
        FakeOptimizer.step(self)
        group["params"] = stashed

    def synchronize(self) -> None:
        pass

    def step(self) -> None:
        self._hooked(lambda: self.time.advance(self.wait_ns))
