"""A hand-written loop: allreduce_async_ of every gradient, synchronize, a plain optimizer.

Faults: data, forward, backward, update (before the optimizer), pause.
"""

import argparse
from collections.abc import Iterator

import horovod.torch as hvd
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work


class Measurements(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """An endless table, read batch by batch while the training waits."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Inputs and targets of a batch."""
        step = 0
        while True:
            work(0.5)
            slow_down(self.fault, "data", step)
            yield torch.randn(16, 20), torch.randn(16, 1)
            step += 1


def average_gradients(model: torch.nn.Module) -> None:
    """Average the gradients of all ranks in place."""
    handles = [
        hvd.allreduce_async_(parameter.grad, name=name)
        for name, parameter in model.named_parameters()
    ]
    for handle in handles:
        hvd.synchronize(handle)


def main() -> None:
    """Fit a regression."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    add_fault_option(parser)
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(2)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        Layer((20, 64), (9, 16)), torch.nn.Tanh(), Layer((64, 1), (11, 20), args.fault)
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    source = iter(DataLoader(Measurements(args.fault), batch_size=None))
    for step in range(args.steps):
        inputs, targets = next(source)
        loss = functional.mse_loss(model(inputs), targets)
        loss.backward()
        average_gradients(model)
        slow_down(args.fault, "update", step)
        optimizer.step()
        optimizer.zero_grad()
        slow_down(args.fault, "pause", step)


if __name__ == "__main__":
    main()
