"""A DDP script as users write them; options choose its kind, and the bug of rank 1.

Kinds: ``loop``, a training loop; ``accumulate``, two micro-batches per update, the first within
``no_sync()``, with a communication hook of its own; ``trainer``, a trainer that wraps late, in a
subclass, and steps with a closure, as frameworks do.

Under ``mpirun`` and ``srun`` it finds its rank itself, as the scripts of users do.

Layers and batches sleep instead of computing, so that two ranks share a core without harm.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from benchmarks.scripts.fault import Fault
from tests.builders.no_compiler import leave_out_compiler

BATCH = 8
USUAL_S = {"data": 0.001, "forward": 0.008, "backward": 0.012, "update": 0.0}
"""How long each place of a micro-batch takes."""


class Work:
    """Takes the usual time of each place, and on some ranks the time of the fault."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def take(self, place: str, share: float = 1.0) -> None:
        """Sleep for a share of the time."""
        is_hit = self.fault.hits(place, dist.get_rank(), 0)
        time.sleep(share * (USUAL_S[place] + (self.fault.ms / 1e3 if is_hit else 0.0)))


class Samples(Dataset):
    """Random samples, each of which is decoded."""

    def __init__(self, work: Work, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(count, 32, generator=generator)
        self.work = work

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int):
        self.work.take("data", 1 / BATCH)
        return self.inputs[index], index % 10


class Net(torch.nn.Module):
    """A network with one slow layer."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.begin, self.end = torch.nn.Linear(32, 256), torch.nn.Linear(256, 10)
        self.work = work

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The logits, later."""
        self.work.take("forward")
        return self.end(Later.apply(torch.relu(self.begin(inputs)), self.work))


class Later(torch.autograd.Function):
    """The identity with a slow backward pass."""

    @staticmethod
    def forward(ctx, inputs, work):
        """The input."""
        ctx.work = work
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx, gradient):
        """The gradient, later."""
        ctx.work.take("backward")
        return gradient, None


def loop(net: Net, loader: DataLoader) -> None:
    """A training loop."""
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for inputs, labels in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        net.work.take("update")
        optimizer.step()


def own_hook(state, bucket):
    """A communication hook of the script's own."""
    return default_hooks.allreduce_hook(None, bucket)


def accumulate(net: Net, loader: DataLoader) -> None:
    """Two micro-batches per update."""
    model = DistributedDataParallel(net)
    model.register_comm_hook(None, own_hook)
    optimizer = torch.optim.AdamW(model.parameters())
    for inputs, labels in loader:
        optimizer.zero_grad()
        first, second = inputs.chunk(2), labels.chunk(2)
        with model.no_sync():
            functional.cross_entropy(model(first[0]), second[0]).backward()
        functional.cross_entropy(model(first[1]), second[1]).backward()
        optimizer.step()


class Strategy(DistributedDataParallel):
    """The DDP of a framework, whose forward is the training step of its module."""

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        """The loss."""
        inputs, labels = batch
        return functional.cross_entropy(super().forward(inputs), labels)


def trainer(net: Net, loader: DataLoader) -> None:
    """A trainer: optimizer before DDP, updates with a closure, a schedule."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100)
    model = Strategy(net, find_unused_parameters=True)
    for batch in loader:

        def closure(batch=batch) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(*batch)
            loss.backward()
            return loss

        optimizer.step(closure)
        schedule.step()


def take_rank_of_launcher() -> None:
    """Set what ``env://`` reads, from the variables of Open MPI or of Slurm on one host."""
    for prefix, size in (("OMPI_COMM_WORLD_", "SIZE"), ("SLURM_", "NTASKS")):
        rank = "RANK" if prefix.startswith("OMPI") else "PROCID"
        if prefix + rank in os.environ:
            os.environ.setdefault("RANK", os.environ[prefix + rank])
            os.environ.setdefault("WORLD_SIZE", os.environ[prefix + size])
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")


def main() -> None:
    """Train one epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=("loop", "accumulate", "trainer"), default="loop")
    parser.add_argument("--fault", type=Fault.parse, default=Fault())
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    leave_out_compiler()
    take_rank_of_launcher()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    work = Work(args.fault)
    samples = Samples(work, args.steps * BATCH * dist.get_world_size())
    loader = DataLoader(samples, BATCH, sampler=DistributedSampler(samples))
    {"loop": loop, "accumulate": accumulate, "trainer": trainer}[args.kind](Net(work), loader)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
