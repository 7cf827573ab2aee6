"""Mixed-precision style: a loss scaler that unscales after synchronize() and skips some updates.

Faults: data, forward, backward, update (between synchronize() and step()), pause.
"""

import argparse

import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work


class Scaler:
    """Scales the loss; halves the scale and skips the update where gradients overflow."""

    def __init__(self, fault: Fault) -> None:
        self.scale, self.num_good, self.fault, self.num_steps = 2.0**16, 0, fault, 0

    def step(self, optimizer: "hvd.DistributedOptimizer") -> None:
        """Unscale and update."""
        optimizer.synchronize()
        slow_down(self.fault, "update", self.num_steps)
        self.num_steps += 1
        gradients = [one.grad for group in optimizer.param_groups for one in group["params"]]
        for gradient in gradients:
            gradient.div_(self.scale)
        if not all(gradient.isfinite().all() for gradient in gradients):
            self.scale, self.num_good = self.scale / 2, 0
            return
        with optimizer.skip_synchronize():
            optimizer.step()
        self.num_good += 1
        if self.num_good % 2000 == 0:
            self.scale *= 2


class Noise(Dataset[torch.Tensor]):
    """Batches to reconstruct."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def __len__(self) -> int:
        """Number of batches."""
        return 400

    def __getitem__(self, number: int) -> torch.Tensor:
        """A batch."""
        work(0.5)
        slow_down(self.fault, "data", number)
        return torch.randn(8, 30)


def main() -> None:
    """Train with scaled losses."""
    parser = argparse.ArgumentParser()
    add_fault_option(parser)
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(9)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        Layer((30, 60), (10, 16)), torch.nn.ReLU(), Layer((60, 30), (10, 18), args.fault)
    )
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    scaler = Scaler(args.fault)
    for step, x in enumerate(DataLoader(Noise(args.fault), batch_size=None)):
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        # The first two losses overflow in half precision, as a scale that starts high makes them.
        factor = float("inf") if step < 2 else scaler.scale
        (loss * factor).backward()
        scaler.step(optimizer)
        slow_down(args.fault, "pause", step)


if __name__ == "__main__":
    main()
