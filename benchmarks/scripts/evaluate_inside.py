"""Evaluation inside the training loop every 12 steps, with the metric averaged over all ranks.

Faults: data, forward, backward; evaluation: the ranks named evaluate alone, every so many steps,
and the others wait for them in their next step; cold: the first steps after an evaluation are
slower, as caches have to fill again.
"""

import argparse

import horovod.torch as hvd
import torch
from torch.nn import functional

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work

EVALUATE_EVERY = 12


class Trainer:
    """Model, optimizer and the two loops."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.model = torch.nn.Sequential(
            Layer((18, 36), (10, 17)), torch.nn.ReLU(), Layer((36, 3), (10, 19), fault)
        )
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.RMSprop(self.model.parameters(), lr=1e-3),
            named_parameters=self.model.named_parameters(),
        )
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)

    def train_step(self, step: int) -> None:
        """One update."""
        work(0.5)
        slow_down(self.fault, "data", step)
        x, y = torch.randn(8, 18), torch.randint(0, 3, (8,))
        self.optimizer.zero_grad()
        functional.cross_entropy(self.model(x), y).backward()
        if step >= EVALUATE_EVERY and step % EVALUATE_EVERY < 3:
            slow_down(self.fault, "cold", step)
        self.optimizer.step()

    def accuracy(self) -> torch.Tensor:
        """The share of right answers on the validation set."""
        self.model.eval()
        with torch.no_grad():
            x, y = torch.randn(16, 18), torch.randint(0, 3, (16,))
            right = (self.model(x).argmax(1) == y).float().mean()
        self.model.train()
        return right

    def run(self, steps: int) -> None:
        """Train, and evaluate now and then."""
        for step in range(steps):
            self.train_step(step)
            if self.fault.place == "evaluation":
                if self.fault.hits("evaluation", hvd.rank(), step):
                    self.accuracy()
                    slow_down(self.fault, "evaluation", step)
            elif (step + 1) % EVALUATE_EVERY == 0:
                hvd.allreduce(self.accuracy(), name="accuracy")


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    add_fault_option(parser)
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(10)
    torch.set_num_threads(1)
    Trainer(args.fault).run(args.steps)


if __name__ == "__main__":
    main()
