"""An elastic Horovod script as users write them, without a word of hvdprof."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader, TensorDataset

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.builders.no_compiler import leave_out_compiler

SAMPLES = 512
BATCH = 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--commit-every", type=int, default=5)
    parser.add_argument("--kill-at", type=int, default=-1)
    parser.add_argument("--raise-at", type=int, default=-1)
    parser.add_argument("--grow-at", type=int, default=-1)
    parser.add_argument("--grow-to", default="localhost:2")
    parser.add_argument("--hosts", default="")
    options = parser.parse_args()
    leave_out_compiler()
    hvd.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(SAMPLES, 32), torch.randint(0, 4, (SAMPLES,)))
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))

    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )
    sampler = hvd.elastic.ElasticSampler(data)

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        while state.batch < options.batches:
            for number, (inputs, labels) in enumerate(DataLoader(data, BATCH, sampler=sampler)):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
                state.batch += 1
                state.sampler.record_batch(number, BATCH)
                time.sleep(options.pause)
                fail(options, state.batch)
                if state.batch == options.grow_at + 40:
                    wait_for_hosts(options, state)
                if state.batch % options.commit_every == 0:
                    state.commit()
                if state.batch >= options.batches:
                    break
            state.sampler.set_epoch(state.sampler.epoch + 1)

    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, batch=0))
    print(f"rank {hvd.rank()} of {hvd.size()} is done")


def fail(options: argparse.Namespace, batch: int) -> None:
    if batch == options.grow_at and hvd.rank() == 0:
        new = Path(options.hosts).with_suffix(".new")
        new.write_text(options.grow_to.replace(",", "\n") + "\n", encoding="utf-8")
        new.replace(options.hosts)
    last = hvd.size() > 1 and hvd.rank() == hvd.size() - 1
    if batch == options.kill_at and last:
        os.kill(os.getpid(), signal.SIGKILL)
    if batch == options.raise_at and last:
        raise RuntimeError("on purpose")


def wait_for_hosts(options: argparse.Namespace, state: hvd.elastic.TorchState) -> None:
    """Stay at a batch, should the new hosts not be known yet, until the reset for them."""
    wanted = sum(int(host.rpartition(":")[2]) for host in options.grow_to.split(","))
    while options.grow_at >= 0 and hvd.size() < wanted:
        state.commit()
        time.sleep(0.1)


if __name__ == "__main__":
    main()
