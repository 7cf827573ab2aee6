"""Gradients exchanged by Horovod: ``hvd.DistributedOptimizer``."""

import importlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType

import torch
from torch import nn
from torch.optim import Optimizer

from hvdprof import collect
from hvdprof.bench_models.engine import chosen
from hvdprof.collect.host_facts import Identity
from hvdprof.rundir.plan import Plan, Segment


class HorovodEngine:
    """Horovod, initialised in this process.

    Args:
        plan: The plan of the pass.
        hvd: ``horovod.torch``, for tests; imported and initialised where not given.
    """

    def __init__(self, plan: Plan, hvd: ModuleType | None = None) -> None:
        self._device = plan.device
        self._hvd = _initialised() if hvd is None else hvd
        self.identity = Identity(
            self._hvd.rank(), self._hvd.size(), self._hvd.local_rank(), self._hvd.local_size()
        )

    def learning_rate_scale(self, segment: Segment) -> int:
        """As Horovod's MNIST tutorial has it.

        The number of ranks for averaging; for Adasum 1, or the ranks of a host where NCCL averages
        within hosts.
        """
        if segment.reduction != "adasum":
            return self.identity.size
        if self._device != "cpu" and self._hvd.nccl_built():
            return self.identity.local_size
        return 1

    def wrap(
        self, segment: Segment, model: nn.Module, optimizer: Optimizer
    ) -> tuple[nn.Module, Optimizer]:
        """The model as it is, and the optimizer wrapped."""
        hvd = self._hvd
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        compressions = {"none": hvd.Compression.none, "fp16": hvd.Compression.fp16}
        reductions = {"average": hvd.Average, "adasum": hvd.Adasum}
        return model, hvd.DistributedOptimizer(
            optimizer,
            named_parameters=model.named_parameters(),
            compression=chosen(compressions, segment.compression),
            op=chosen(reductions, segment.reduction),
        )

    def slowest(self, seconds: float) -> float:
        """By an allreduce."""
        longest = self._hvd.allreduce(
            torch.tensor([seconds], dtype=torch.float64), op=self._hvd.Max, name="bench.warmup"
        )
        return float(longest)

    def wait_for_all(self) -> None:
        """By an allreduce."""
        self._hvd.allreduce(torch.zeros(1), name="bench.all_ready")

    def timeline(self, segment: Segment, path: Path) -> AbstractContextManager[None]:
        """Horovod's timeline where the segment asks for it."""
        return collect.timeline(path) if segment.timeline else nullcontext()

    def close(self) -> None:
        """Shut Horovod down; what registers at the end of the process does not run."""
        self._hvd.shutdown()


def _initialised() -> ModuleType:
    hvd = importlib.import_module("horovod.torch")
    hvd.init()
    return hvd
