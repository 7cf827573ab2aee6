"""A classifier fed by a DataLoader with worker processes, after Horovod's MNIST example.

Faults: forward, backward, pause, and worker: the time that the files of a batch take, lost in a
worker process behind its prefetch queue.
"""

import argparse
import time

import horovod.torch as hvd
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, log_lost, slow_down, work

BATCH_SIZE = 8


class Digits(Dataset[tuple[torch.Tensor, int]]):
    """Digits that are read from files one by one."""

    def __init__(self, fault: Fault) -> None:
        self.fault, self.rank, self.size = fault, hvd.rank(), hvd.size()

    def __len__(self) -> int:
        """Enough for every launch."""
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """One digit; the files of some batches are on a slow disk."""
        number = index // (BATCH_SIZE * self.size)
        if index // self.size % BATCH_SIZE == 0 and self.fault.hits("worker", self.rank, number):
            work(self.fault.ms)
        return torch.full((16,), index % 10 / 10), index % 10


def main() -> None:
    """Train for an epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--workers", type=int, default=1)
    add_fault_option(parser)
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    dataset = Digits(args.fault)
    sampler: DistributedSampler[int] = DistributedSampler(
        dataset, hvd.size(), hvd.rank(), shuffle=False
    )
    loader = DataLoader(dataset, BATCH_SIZE, sampler=sampler, num_workers=args.workers)
    model = torch.nn.Sequential(
        Layer((16, 128), (8, 14)), torch.nn.ReLU(), Layer((128, 10), (14, 26), args.fault)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    model.train()
    end = time.perf_counter()
    for step, (images, labels) in enumerate(loader):
        if args.fault.place == "worker" and hvd.rank() in args.fault.ranks:
            log_lost(step, time.perf_counter() - end)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        slow_down(args.fault, "pause", step)
        if step % 10 == 0 and hvd.rank() == 0:
            print(f"step {step}: loss {loss.item():.4f}")
        end = time.perf_counter()


if __name__ == "__main__":
    main()
