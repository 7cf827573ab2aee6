"""Half-precision gradients, clipped between synchronize() and step().

Faults: data, forward, backward, optimizer (a slow hook of the optimizer), pause.
"""

import argparse

import horovod.torch as hvd
import torch

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work


class SlowAdam(torch.optim.Adam):
    """Adam whose update takes its time."""

    fault = Fault()
    num_updates = 0

    def step(self, closure=None):  # type: ignore[no-untyped-def]
        """Update the parameters."""
        work(4)
        slow_down(self.fault, "optimizer", self.num_updates)
        self.num_updates += 1
        return super().step(closure)


def read(fault: Fault, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of sequences and what follows them."""
    work(0.5)
    slow_down(fault, "data", step)
    return torch.randn(16, 40), torch.randn(16, 40)


def train(args: argparse.Namespace) -> None:
    """The training loop."""
    hvd.init()
    torch.manual_seed(3)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(
        Layer((40, 80), (9, 15)), torch.nn.SiLU(), Layer((80, 40), (9, 15), args.fault)
    )
    adam = SlowAdam(net.parameters(), lr=1e-3)
    optimizer = hvd.DistributedOptimizer(
        adam, named_parameters=net.named_parameters(), compression=hvd.Compression.fp16
    )
    optimizer.fault = args.fault
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    criterion = torch.nn.MSELoss()
    for step in range(args.max_steps):
        x, y = read(args.fault, step)
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()
        optimizer.zero_grad()
        slow_down(args.fault, "pause", step)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-steps", type=int, default=400)
    add_fault_option(parser)
    train(parser.parse_args())
