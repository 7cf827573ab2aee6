"""Learning-rate schedule, validation and checkpoints per epoch, after Horovod's ImageNet example.

Faults: data, forward, backward; checkpoint: what torch.save to a slow file system takes, on the
ranks that write; validation: the same within the evaluation.
"""

import argparse
import math
import tempfile
from pathlib import Path

import horovod.torch as hvd
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work

BATCHES_PER_EPOCH = 24
BATCH_SIZE = 8


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Images that are decoded batch by batch."""

    def __init__(self, num: int, fault: Fault) -> None:
        self.num, self.fault, self.num_read = num, fault, 0

    def __len__(self) -> int:
        """Number of images."""
        return self.num

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """An image and its class."""
        if self.num_read % BATCH_SIZE == 0:
            work(0.5)
            slow_down(self.fault, "data", self.num_read // BATCH_SIZE)
        self.num_read += 1
        return torch.full((48,), index % 5 / 5), index % 5


class Metric:
    """A mean over all ranks."""

    def __init__(self, name: str) -> None:
        self.name, self.total, self.num = name, torch.tensor(0.0), torch.tensor(0.0)

    def update(self, value: torch.Tensor) -> None:
        """Add a value of all ranks."""
        self.total += hvd.allreduce(value.detach().cpu(), name=self.name)
        self.num += 1


def learning_rate(base: float, epoch: int, batch: int) -> float:
    """Warm-up for an epoch, then a cosine."""
    progress = epoch + batch / BATCHES_PER_EPOCH
    if progress < 1:
        return base / hvd.size() * (progress * (hvd.size() - 1) + 1)
    return base * 0.5 * (1 + math.cos(math.pi * progress / 90))


def validate(model: torch.nn.Module, loader: DataLoader[tuple[torch.Tensor, int]]) -> None:
    """Accuracy on the validation images."""
    model.eval()
    accuracy = Metric("val_accuracy")
    with torch.no_grad():
        for images, labels in loader:
            accuracy.update((model(images).argmax(1) == labels).float().mean())
    model.train()


def main() -> None:
    """Train for 90 epochs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-lr", type=float, default=0.0125)
    add_fault_option(parser)
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images = Images(BATCHES_PER_EPOCH * BATCH_SIZE * hvd.size(), args.fault)
    sampler: DistributedSampler[int] = DistributedSampler(images, hvd.size(), hvd.rank())
    loader = DataLoader(images, BATCH_SIZE, sampler=sampler)
    validation = DataLoader(Images(2 * BATCH_SIZE, Fault()), BATCH_SIZE)
    model = torch.nn.Sequential(
        Layer((48, 96), (8, 15)), torch.nn.ReLU(), Layer((96, 5), (12, 25), args.fault)
    )
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=args.base_lr, momentum=0.9, weight_decay=5e-5),
        named_parameters=model.named_parameters(),
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    step = 0
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(90):
            sampler.set_epoch(epoch)
            model.train()
            for batch, (pictures, labels) in enumerate(loader):
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(args.base_lr, epoch, batch)
                optimizer.zero_grad()
                functional.cross_entropy(model(pictures), labels).backward()
                optimizer.step()
                if args.fault.hits("checkpoint", hvd.rank(), step):
                    torch.save(model.state_dict(), Path(folder) / f"{hvd.rank()}-{step}.pt")
                    slow_down(args.fault, "checkpoint", step)
                step += 1
            validate(model, validation)


if __name__ == "__main__":
    main()
