"""A Horovod script as users write them, without a word of hvdprof; options choose its kind."""

import argparse
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.builders.no_compiler import leave_out_compiler

SAMPLES = 512
BATCH = 16


def given_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--adasum", action="store_true")
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--fail-at", type=int, default=-1)
    parser.add_argument("--hang-at", type=int, default=-1)
    parser.add_argument("--alone-at", type=int, default=-1)
    parser.add_argument("--daemon", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--prefetch", action="store_true")
    parser.add_argument("--exit-code", type=int, default=0)
    parser.add_argument("--by-hand", action="store_true")
    parser.add_argument("--slow", choices=("data", "forward", "backward", "between"))
    parser.add_argument("--slow-ms", type=float, default=30, help="how long, in each step")
    parser.add_argument("--step-ms", type=float, default=0, help="what each rank sleeps in a step")
    return parser.parse_args()


def main() -> None:
    options = given_options()
    if not options.compile:
        leave_out_compiler()
    hvd.init()
    slow = options.slow if hvd.rank() == 1 else None
    torch.manual_seed(0)
    torch.set_num_threads(1)
    kind = SlowData if slow == "data" else TensorDataset
    data = kind(torch.randn(SAMPLES, 32), torch.randint(0, 4, (SAMPLES,)))
    slow_s = options.slow_ms / 1e3
    SlowData.sample_s = slow_s / BATCH
    shard = DistributedSampler(data, hvd.size(), hvd.rank())
    loader = DataLoader(data, BATCH, sampler=shard, num_workers=options.workers)
    between = Slow(slow, slow_s) if slow else torch.nn.ReLU()
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), between, torch.nn.Linear(256, 4))
    optimizer = made_optimizer(model, options)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    trained = torch.compile(model, backend="eager", fullgraph=True) if options.compile else model
    num_steps = 0
    for _ in range(options.epochs):
        model.train()
        batches = prefetched(loader) if options.prefetch else loader
        for number, (inputs, labels) in enumerate(batches, start=1):
            time.sleep(options.step_ms / 1e3)
            loss = torch.nn.functional.cross_entropy(trained(inputs), labels)
            loss.backward()
            if number % options.accumulate == 0:
                if options.by_hand:
                    reduce_gradients(model)
                optimizer.step()
                optimizer.zero_grad()
                num_steps += 1
                time.sleep(slow_s * (slow == "between"))
            if hvd.rank() == 1:
                misbehave(options, num_steps)
        scheduler.step()
        if options.evaluate:
            evaluate(model, data)
    if hvd.rank() == 0:
        print(f"{num_steps} steps")
        if options.daemon:
            subprocess.Popen(["sleep", "86400"], start_new_session=True)
    sys.exit(options.exit_code)


class SlowData(TensorDataset):
    """Data of which every batch takes long."""

    sample_s = 0.0

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        time.sleep(self.sample_s)
        return super().__getitem__(index)


class Slow(torch.nn.Module):
    """A layer that takes long in one direction, where asked to."""

    def __init__(self, phase: str, seconds: float) -> None:
        super().__init__()
        self.phase, self.seconds = phase, seconds

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.phase == "forward" and inputs.requires_grad:
            time.sleep(self.seconds)
        if self.phase == "backward" and inputs.requires_grad:
            inputs.register_hook(lambda _: time.sleep(self.seconds))
        return torch.relu(inputs)


def made_optimizer(model: torch.nn.Module, options: argparse.Namespace) -> torch.optim.Optimizer:
    plain = torch.optim.SGD(model.parameters(), lr=0.01)
    if options.by_hand:
        return plain
    return hvd.DistributedOptimizer(
        plain,
        named_parameters=model.named_parameters(),
        backward_passes_per_step=options.accumulate,
        op=hvd.Adasum if options.adasum else hvd.Average,
    )


def evaluate(model: torch.nn.Module, data: TensorDataset) -> None:
    model.eval()
    with torch.no_grad():
        right = (model(data.tensors[0]).argmax(1) == data.tensors[1]).float().mean()
    hvd.allreduce(right, name="accuracy")


def reduce_gradients(model: torch.nn.Module) -> None:
    handles = [
        hvd.allreduce_async_(parameter.grad, name=name)
        for name, parameter in model.named_parameters()
    ]
    for handle in handles:
        hvd.synchronize(handle)


def misbehave(options: argparse.Namespace, num_steps: int) -> None:
    if num_steps == options.fail_at:
        raise RuntimeError("on purpose")
    if num_steps == options.alone_at:
        hvd.allreduce(torch.zeros(1), name="validation")
    if num_steps == options.hang_at:
        block_for_long()


def block_for_long() -> None:
    time.sleep(600)


def prefetched(loader: DataLoader) -> Iterator[list[torch.Tensor]]:
    """The batches of a loader, fetched by a thread ahead of the training."""
    waiting: queue.Queue = queue.Queue(maxsize=2)

    def fetch() -> None:
        for batch in loader:
            waiting.put(batch)
        waiting.put(None)

    threading.Thread(target=fetch, daemon=True).start()
    while (batch := waiting.get()) is not None:
        yield batch


if __name__ == "__main__":
    main()
