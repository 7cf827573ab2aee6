"""Gradients exchanged by PyTorch: ``DistributedDataParallel``, or ``DataParallel`` alone."""

import atexit
import inspect
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from hvdprof import collect
from hvdprof.bench_models.engine import OneProcess, chosen
from hvdprof.collect import _hooks
from hvdprof.collect.host_facts import Identity
from hvdprof.errors import UsageError
from hvdprof.rundir.plan import Plan, Segment

THROUGHPUT = "throughput"
ONE_BYTE_MB = 2.0**-20

_PARAMETERS = inspect.signature(DistributedDataParallel.__init__).parameters
# Horovod exchanges gradients alone; DDP would also send rank 0's buffers in every forward.
_BUFFERS = "forward_sync_buffers" if "forward_sync_buffers" in _PARAMETERS else "broadcast_buffers"


class DdpEngine:
    """The process group that ``torchrun`` describes in the environment of this process.

    Args:
        plan: The plan of the pass. Small values of the bench itself always go through Gloo;
            gradients on GPUs go through NCCL.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        backend = "cpu:gloo,cuda:nccl" if plan.device == "cuda" else "gloo"
        distributed.init_process_group(backend)
        self.identity = Identity(
            distributed.get_rank(),
            distributed.get_world_size(),
            int(os.environ["LOCAL_RANK"]),
            int(os.environ["LOCAL_WORLD_SIZE"]),
        )

    def learning_rate_scale(self, segment: Segment) -> int:
        """The number of ranks: DDP averages, as Horovod does."""
        return self.identity.size

    def wrap(
        self, segment: Segment, model: nn.Module, optimizer: Optimizer
    ) -> tuple[nn.Module, Optimizer]:
        """The model wrapped, and the optimizer as it is."""
        chosen({"average": None}, segment.reduction)
        hooks = {"none": default_hooks.allreduce_hook, "fp16": default_hooks.fp16_compress_hook}
        hook = chosen(hooks, segment.compression)
        options: dict[str, float] = {_BUFFERS: False}
        if self._plan.bucket_cap_mb is not None:
            # 0 is one bucket per tensor, as without fusion in Horovod.
            options["bucket_cap_mb"] = max(self._plan.bucket_cap_mb, ONE_BYTE_MB)
        wrapped = DistributedDataParallel(model, **options)  # type: ignore[arg-type]
        is_observed = self._plan.mode != THROUGHPUT
        if is_observed or segment.compression != "none":
            # Without a hook DDP reduces in C++ alone, which is what throughput is measured with.
            wrapped.register_comm_hook(None, collect.bucket_hook(hook) if is_observed else hook)
        return wrapped, optimizer

    def slowest(self, seconds: float) -> float:
        """By an allreduce."""
        longest = torch.tensor([seconds], dtype=torch.float64)
        distributed.all_reduce(longest, distributed.ReduceOp.MAX)
        return float(longest)

    def wait_for_all(self) -> None:
        """By an allreduce."""
        distributed.all_reduce(torch.zeros(1))

    def timeline(self, segment: Segment, path: Path) -> AbstractContextManager[None]:
        """A context that does nothing: DDP writes no timeline, the hook records instead."""
        return nullcontext()

    def close(self) -> None:
        """End the process group once no rank needs another one, and the process with it.

        Everything is recorded by then.
        """
        # A rank that leaves while another still trains closes the store, or its connection.
        self.wait_for_all()
        distributed.destroy_process_group()
        atexit.register(_leave)


def _leave() -> None:
    # A thread of Gloo may still release the Python callback of its last reduction. If the
    # interpreter ends meanwhile, the thread aborts the process (torch 2.13, sometimes).
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class DataParallelEngine(OneProcess):
    """This process, which trains all replicas and records as rank 0 of so many.

    Raises:
        UsageError: This process sees fewer GPUs than the plan has replicas.
    """

    def __init__(self, plan: Plan) -> None:
        num_gpus = torch.cuda.device_count()
        if num_gpus < plan.size:
            raise UsageError(f"DataParallel needs {plan.size} GPUs; torch finds {num_gpus}.")
        self.identity = Identity(rank=0, size=plan.size, local_rank=0, local_size=plan.size)

    def learning_rate_scale(self, segment: Segment) -> int:
        """The number of replicas: the loss is the mean over the samples of all."""
        return self.identity.size

    def wrap(
        self, segment: Segment, model: nn.Module, optimizer: Optimizer
    ) -> tuple[nn.Module, Optimizer]:
        """The model wrapped, and the optimizer as it is."""
        chosen({"average": None}, segment.reduction)
        chosen({"none": None}, segment.compression)
        parallel = nn.DataParallel(model, device_ids=list(range(self.identity.size)))
        # Copies between GPUs lie within forward and backward, where they are not seen.
        parallel.register_forward_pre_hook(lambda _module, _inputs: _hooks.blocked_unseen())
        return parallel, optimizer
