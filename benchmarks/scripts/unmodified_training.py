"""A DDP or FSDP2 script on Gloo that knows nothing of hvdprof, with a bug of its own.

``hvdprof run --launcher torchrun --np 4 -- python benchmarks/scripts/unmodified_training.py
--engine fsdp --fault backward:rank=3:ms=6``. Model and places of a fault are those of
``profiled_training``: computation is a sleep, so that 8 ranks fit on two cores.
"""

import argparse

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.profiled_training import BATCH, Net, Samples, Update, Work, reduced


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--fault", default="")
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    work = Work(Fault.parse(options.fault), dist.get_rank())
    torch.manual_seed(0)
    model = reduced(Net(work), options.engine)
    optimizer = Update(model.parameters(), work)
    loader = DataLoader(Samples(BATCH * options.steps, work), batch_size=BATCH)
    for work.step, (inputs, labels) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
