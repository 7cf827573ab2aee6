"""A DDP script that asks for a bucket per gradient; its layers are small, and it sleeps."""

import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.builders.no_compiler import leave_out_compiler

NUM_LAYERS, WIDTH, BATCH = 60, 32, 8
STEP_S = 0.008


def main() -> None:
    """Train one epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    leave_out_compiler()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(NUM_LAYERS)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(args.steps * BATCH, WIDTH))
    for (inputs,) in DataLoader(data, BATCH):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        time.sleep(STEP_S)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
