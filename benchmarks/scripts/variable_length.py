"""Sequences of varying length: the work of a batch differs from rank to rank and step to step.

Without a fault no rank is slower than the others, though one of them is always last. Faults: data,
forward, backward, pause.
"""

import argparse
import random

import horovod.torch as hvd
import torch

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work

SHORTEST, LONGEST = 40, 60


class Recurrent(torch.nn.Module):
    """A layer per token, and a layer for the whole."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.cell = torch.nn.GRU(6, 12, batch_first=True)
        self.output = Layer((12, 6), (8, 30), fault)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """What follows the sequence."""
        work(0.4 * tokens.shape[1])
        hidden, _ = self.cell(tokens)
        following: torch.Tensor = self.output(hidden[:, -1])
        return following


def main() -> None:
    """Train a language model."""
    parser = argparse.ArgumentParser()
    add_fault_option(parser)
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(13)
    torch.set_num_threads(1)
    lengths = random.Random(hvd.rank())
    model = Recurrent(args.fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 50))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(400):
        work(0.5)
        slow_down(args.fault, "data", step)
        tokens = torch.randn(4, lengths.randint(SHORTEST, LONGEST), 6)
        optimizer.zero_grad()
        model(tokens).square().mean().backward()
        optimizer.step()
        scheduler.step()
        slow_down(args.fault, "pause", step)


if __name__ == "__main__":
    main()
