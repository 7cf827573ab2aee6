"""A DDP script of 20 short steps that sleep; it ends as scripts do that forget their group."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

NUM_STEPS = 20


def main() -> None:
    """Train."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(4, 64)
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        time.sleep(0.005)
        model(inputs).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
