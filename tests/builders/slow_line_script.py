"""A script whose rank 1 is slow on a line of its own, with workers for its data.

Arguments: ``horovod``, ``ddp`` or ``fsdp``, how workers start, and the steps.
"""

import sys
import time
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from tests.builders.no_compiler import leave_out_compiler

BATCH = 4


class Samples(Dataset[Any]):
    """Samples that take their time."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> Any:
        return load(index)


def load(index: int) -> Any:
    """A sample and its label."""
    time.sleep(0.004)
    return torch.full((8,), float(index % 3)), index % 4


def checked_loss(outputs: Any, labels: Any, rank: int) -> Any:
    """The loss; on rank 1 it takes long."""
    if rank == 1:
        time.sleep(0.03)
    return functional.cross_entropy(outputs, labels)


def main(engine: str, start: str, num_steps: int) -> None:
    """Train."""
    torch.set_num_threads(1)
    model: nn.Module = nn.Linear(8, 4)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.01)
    if engine == "horovod":
        import horovod.torch as hvd

        hvd.init()
        rank = hvd.rank()
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    else:
        torch.distributed.init_process_group("gloo")
        rank = torch.distributed.get_rank()
        if engine == "ddp":
            model = nn.parallel.DistributedDataParallel(model)
        else:
            fully_shard(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples = Samples(num_steps * BATCH)
    loader = DataLoader(samples, batch_size=BATCH, num_workers=1, multiprocessing_context=start)
    for inputs, labels in loader:
        optimizer.zero_grad()
        checked_loss(model(inputs), labels, rank).backward()
        optimizer.step()
    if engine == "horovod":
        hvd.shutdown()
    else:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] != "fsdp":
        # Sharded tensors need it.
        leave_out_compiler()
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
