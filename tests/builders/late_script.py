"""A DDP script whose rank 1 is late in its forward; the argument is its length in seconds.

``profiled`` after it lets torch.profiler be started."""

import sys
import time
from typing import Any

import torch
from torch import nn

from tests.builders.no_compiler import leave_out_compiler


def main(seconds: float) -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model: Any = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(int(seconds / 0.07)):
        optimizer.zero_grad()
        time.sleep(0.07 if rank == 1 else 0.05)
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    # The profiler imports it.
    if "profiled" not in sys.argv:
        leave_out_compiler()
    main(float(sys.argv[1]))
