"""Gradient accumulation: four micro-batches per update, with backward_passes_per_step.

Faults: data, forward and backward, spread over the micro-batches of a step; pause.
"""

import argparse
from collections.abc import Iterator

import horovod.torch as hvd
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down

MICRO_BATCH = 4


class Records(IterableDataset[tuple[torch.Tensor, int]]):
    """An endless stream of records, decoded one by one."""

    def __init__(self, fault: Fault, accumulate: int) -> None:
        self.fault, self.accumulate = fault, accumulate

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        """The records of this rank."""
        number = 0
        while True:
            step = number // (MICRO_BATCH * self.accumulate)
            if number % MICRO_BATCH == 0:
                slow_down(self.fault, "data", step, share=1 / self.accumulate)
            yield torch.full((32,), number % 7 / 7), number % 4
            number += 1


def main() -> None:
    """Train for many steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--steps", type=int, default=400)
    add_fault_option(parser)
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64),
        torch.nn.GELU(),
        Layer((64, 4), (7, 12), args.fault, passes_per_step=args.accumulate),
    )
    optimizer = hvd.DistributedOptimizer(
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        named_parameters=model.named_parameters(),
        backward_passes_per_step=args.accumulate,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    batches = iter(DataLoader(Records(args.fault, args.accumulate), MICRO_BATCH))
    for step in range(args.steps):
        optimizer.zero_grad()
        for _ in range(args.accumulate):
            inputs, labels = next(batches)
            loss = functional.cross_entropy(model(inputs), labels) / args.accumulate
            loss.backward()
        optimizer.step()
        slow_down(args.fault, "pause", step)


if __name__ == "__main__":
    main()
