"""A trainer with callbacks, as frameworks have it; main(arguments) trains.

Faults: data, forward, backward; logging: what the metrics server takes to answer the ranks that
log; collection: gc.collect() over a large heap, as people call it against leaks.
"""

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from typing import Protocol

import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, log_lost, slow_down, work


class Callback(Protocol):
    """What is called behind each step."""

    def after_step(self, step: int, loss: float) -> None:
        """A step has ended."""


class Logging:
    """Sends the loss to a metrics server."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def after_step(self, step: int, loss: float) -> None:
        """Send it."""
        slow_down(self.fault, "logging", step)


class GarbageCollection:
    """Frees memory now and then, on a heap whose collection takes the fault's time."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.heap: list[list[int]] = []
        if fault.place == "collection" and (not fault.ranks or hvd.rank() in fault.ranks):
            while self.collect() < fault.ms / 1e3:
                self.heap.extend([number] for number in range(100_000))

    def collect(self) -> float:
        """Seconds that a collection takes."""
        begin_s = time.perf_counter()
        gc.collect()
        return time.perf_counter() - begin_s

    def after_step(self, step: int, loss: float) -> None:
        """Collect."""
        if self.fault.hits("collection", hvd.rank(), step):
            log_lost(step, self.collect())


class Trainer:
    """Calls the callbacks behind each step."""

    def __init__(self, model: torch.nn.Module, callbacks: Sequence[Callback]) -> None:
        self.model, self.callbacks = model, callbacks
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
            named_parameters=model.named_parameters(),
        )
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(self.optimizer, root_rank=0)

    def fit(self, loader: DataLoader[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Train."""
        for step, (inputs, labels) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(self.model(inputs), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            for callback in self.callbacks:
                callback.after_step(step, loss.item())


class Points(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Batches of points."""

    def __init__(self, num: int, fault: Fault) -> None:
        self.num, self.fault = num, fault

    def __len__(self) -> int:
        """Number of batches."""
        return self.num

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and labels."""
        work(0.5)
        slow_down(self.fault, "data", number)
        return torch.randn(8, 14), torch.randint(0, 4, (8,))


def main(arguments: Sequence[str]) -> None:
    """Train as the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=400)
    add_fault_option(parser)
    args = parser.parse_args(arguments)
    hvd.init()
    torch.manual_seed(12)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        Layer((14, 28), (9, 17)), torch.nn.ReLU(), Layer((28, 4), (10, 19), args.fault)
    )
    callbacks: list[Callback] = [Logging(args.fault), GarbageCollection(args.fault)]
    loader = DataLoader(Points(args.max_steps, args.fault), batch_size=None)
    Trainer(model, callbacks).fit(loader)


if __name__ == "__main__":
    main(sys.argv[1:])
