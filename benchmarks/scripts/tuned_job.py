"""A training loop whose settings all come from the environment, so that `tune` can change them.

A tower of small layers has many gradients; it computes with as many threads as the environment
gives it. ``--wait-ms`` adds work that takes no core; ``--fp16`` is the variant of a comparison.
"""

import argparse
import time

import horovod.torch as hvd
import torch
from torch.nn import functional


def tower(layers: int, width: int) -> torch.nn.Sequential:
    """A model of ``layers`` square layers and a head of ten classes."""
    blocks: list[torch.nn.Module] = []
    for _ in range(layers):
        blocks += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*blocks, torch.nn.Linear(width, 10))


def main() -> None:
    """Train for many steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--wait-ms", type=float, default=0.0)
    parser.add_argument("--fp16", action="store_true", help="send gradients as 16-bit floats")
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(1)
    model = tower(args.layers, args.width)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1e-3),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16 else hvd.Compression.none,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    inputs = torch.randn(args.batch_size, args.width)
    labels = torch.randint(10, (args.batch_size,))
    for _ in range(args.steps):
        optimizer.zero_grad()
        if args.wait_ms:
            time.sleep(args.wait_ms / 1e3)
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
