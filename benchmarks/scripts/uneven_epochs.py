"""Epochs of 12 batches, the last of which is half as large on every rank.

Faults: batch: the last batch of a rank is longer than those of the others, as where the rest of
the data set went to one rank; data, forward, backward, pause.
"""

import argparse
from collections.abc import Iterator

import horovod.torch as hvd
import torch

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work

BATCHES = 12
BATCH_SIZE = 16


def epoch(number: int, fault: Fault) -> Iterator[torch.Tensor]:
    """The batches of an epoch on this rank."""
    for batch in range(BATCHES):
        rows = BATCH_SIZE if batch < BATCHES - 1 else BATCH_SIZE // 2
        work(0.05 * rows)
        slow_down(fault, "data", BATCHES * number + batch)
        yield torch.randn(rows, 10)


def main() -> None:
    """Train an autoencoder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=40)
    add_fault_option(parser)
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(11)
    torch.set_num_threads(1)
    encoder = Layer((10, 4), (10, 18))
    decoder = Layer((4, 10), (10, 18), args.fault)
    model = torch.nn.Sequential(encoder, torch.nn.ReLU(), decoder)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for number in range(args.epochs):
        for batch, rows in enumerate(epoch(number, args.fault)):
            optimizer.zero_grad()
            loss = (model(rows) - rows).square().mean()
            loss.backward()
            optimizer.step()
            slow_down(args.fault, "pause", BATCHES * number + batch)


if __name__ == "__main__":
    main()
