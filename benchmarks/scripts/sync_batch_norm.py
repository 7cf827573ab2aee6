"""Batch normalisation over all ranks: a collective in every forward and backward pass.

Horovod's own SyncBatchNorm takes GPUs alone, so this script has one of its own, as people write
it. Faults: data, forward (before the normalisation), head (behind it), backward, pause.
"""

import argparse

import horovod.torch as hvd
import torch

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work


class SyncBatchNorm(torch.nn.Module):
    """Normalises by mean and variance of the batches of all ranks."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The inputs, normalised."""
        moments = torch.stack([inputs.mean(0), inputs.square().mean(0)])
        mean, square = hvd.allreduce(moments, name="moments")
        variance = square - mean.square()
        return (inputs - mean) * torch.rsqrt(variance + 1e-5) * self.weight + self.bias


class Segmenter(torch.nn.Module):
    """Backbone, normalisation, head."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.backbone = Layer((12, 24), (12, 20), fault)
        self.norm = SyncBatchNorm(24)
        self.head = Layer((24, 6), (8, 14))
        self.fault, self.num_passes = fault, 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores per class."""
        hidden = self.norm(self.backbone(images)).relu()
        slow_down(self.fault, "head", self.num_passes)
        self.num_passes += 1
        scores: torch.Tensor = self.head(hidden)
        return scores


def main(args: argparse.Namespace) -> None:
    """Train on small batches."""
    hvd.init()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model = Segmenter(args.fault)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(args.iterations):
        work(0.5)
        slow_down(args.fault, "data", step)
        images, labels = torch.randn(4, 12), torch.randint(0, 6, (4,))
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        slow_down(args.fault, "pause", step)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=400)
    add_fault_option(parser)
    main(parser.parse_args())
