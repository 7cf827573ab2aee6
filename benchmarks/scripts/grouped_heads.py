"""A model of many small parameters, reduced in groups; --timeline lets Horovod write its timeline.

Faults: data, forward, backward, pause.
"""

import argparse

import horovod.torch as hvd
import torch

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work

NUM_HEADS = 24


class Heads(torch.nn.Module):
    """A trunk and many heads."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.trunk = Layer((16, 32), (18, 34), fault)
        self.heads = torch.nn.ModuleList(torch.nn.Linear(32, 2) for _ in range(NUM_HEADS))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """What all heads say together."""
        hidden = torch.tanh(self.trunk(features))
        return torch.stack([head(hidden) for head in self.heads]).mean(0)


def main() -> None:
    """Train all heads at once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-groups", type=int, default=4)
    parser.add_argument("--timeline", help="file for Horovod's timeline")
    add_fault_option(parser)
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(5)
    torch.set_num_threads(1)
    if args.timeline:
        hvd.start_timeline(args.timeline, mark_cycles=True)
    model = Heads(args.fault)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adagrad(model.parameters(), lr=0.01),
        named_parameters=model.named_parameters(),
        groups=args.num_groups,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(400):
        work(0.5)
        slow_down(args.fault, "data", step)
        features = torch.randn(8, 16)
        optimizer.zero_grad()
        model(features).square().mean().backward()
        optimizer.step()
        slow_down(args.fault, "pause", step)


if __name__ == "__main__":
    main()
