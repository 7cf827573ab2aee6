"""A script of DDP or Horovod whose rank 1 hangs, or has fewer batches than rank 0."""

import argparse
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.builders.no_compiler import leave_out_compiler

BATCHES = 40
HANG_AT = 30
BATCH = 16


def given_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=("ddp", "horovod"), required=True)
    parser.add_argument("--sleep", action="store_true", help="rank 1 sleeps in a step")
    parser.add_argument("--fewer", action="store_true", help="rank 1 has one batch less")
    parser.add_argument("--stay", action="store_true", help="rank 1 sleeps behind its loop")
    parser.add_argument("--timeout", type=float, default=1800.0, help="of the process group")
    return parser.parse_args()


def main() -> None:
    options = given_options()
    leave_out_compiler()
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    model: torch.nn.Module = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if options.engine == "ddp":
        rank = int(os.environ["RANK"])
        limit = timedelta(seconds=options.timeout)
        torch.distributed.init_process_group("gloo", timeout=limit)
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        import horovod.torch as hvd

        hvd.init()
        rank = hvd.rank()
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    is_faulty = rank == 1
    num_samples = BATCH * (BATCHES - (options.fewer and is_faulty))
    data = TensorDataset(torch.randn(num_samples, 32), torch.randint(0, 4, (num_samples,)))
    for number, (inputs, labels) in enumerate(DataLoader(data, BATCH)):
        if options.sleep and is_faulty and number == HANG_AT:
            sleep_for_long()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    if options.stay and is_faulty:
        sleep_for_long()
    if options.engine == "ddp":
        torch.distributed.destroy_process_group()


def sleep_for_long() -> None:
    time.sleep(3600)


if __name__ == "__main__":
    main()
