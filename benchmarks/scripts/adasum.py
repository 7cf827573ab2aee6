"""Gradients combined by Adasum instead of averaged.

Faults: data, forward, backward, pause.
"""

import argparse

import horovod.torch as hvd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work


class Net(nn.Module):
    """Two layers and their activation."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.body = Layer((24, 48), (10, 16))
        self.head = Layer((48, 3), (10, 20), fault)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of three classes."""
        scores: torch.Tensor = self.head(torch.relu(self.body(x)))
        return scores


class Collate:
    """Makes a batch; augmentation is slow on some machines."""

    def __init__(self, fault: Fault) -> None:
        self.fault, self.num_batches = fault, 0

    def __call__(self, rows: list[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
        """Inputs and labels."""
        work(0.5)
        slow_down(self.fault, "data", self.num_batches)
        self.num_batches += 1
        return [torch.stack(column) for column in zip(*rows, strict=True)]


def main() -> None:
    """Train with a learning rate that Adasum need not scale."""
    parser = argparse.ArgumentParser()
    add_fault_option(parser)
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(4)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(8192, 24), torch.randint(0, 3, (8192,)))
    loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=Collate(args.fault))
    net = Net(args.fault)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9),
        named_parameters=net.named_parameters(),
        op=hvd.Adasum,
    )
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    criterion = nn.CrossEntropyLoss()
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        slow_down(args.fault, "pause", step)


if __name__ == "__main__":
    main()
