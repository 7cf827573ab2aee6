"""Gradients summed by ``torch.nn.DataParallel``: one process, a replica of the model per GPU.

Never run: it needs two GPUs.
"""

import torch
from torch import nn
from torch.optim import Optimizer

from hvdprof.bench_models.engine import OneProcess, chosen
from hvdprof.collect import _hooks
from hvdprof.collect.host_facts import Identity
from hvdprof.errors import UsageError
from hvdprof.rundir.plan import Plan, Segment


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
