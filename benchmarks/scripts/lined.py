"""Two ranks with a bug on one line of ``lined_parts.py``, for ``benchmarks/code_lines.py``.

``torchrun --nproc-per-node 2 benchmarks/scripts/lined.py --place hook --rank 1 --ms 30``, or
``horovodrun -np 2 python`` with ``--engine horovod``; without a rank (-1) nothing is slow.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from benchmarks.scripts import lined_parts

EVERY = 20
"""Steps between checkpoints."""


class Samples(Dataset[Tensor]):
    """Random samples, prepared by the transform."""

    def __init__(self, number: int, bug_s: float) -> None:
        self.number, self.bug_s = number, bug_s

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> Tensor:
        return lined_parts.transform(torch.full((64,), float(index % 7)), self.bug_s)


def with_engine(engine: str, network: nn.Module) -> tuple[int, nn.Module, torch.optim.Optimizer]:
    """The rank, and model and optimizer whose gradients are averaged over the ranks."""
    optimizer: torch.optim.Optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    if engine == "ddp":
        dist.init_process_group("gloo")
        return dist.get_rank(), DistributedDataParallel(network), optimizer
    import horovod.torch as hvd

    hvd.init()
    hvd.broadcast_parameters(network.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, network.named_parameters())
    return hvd.rank(), network, optimizer


def main() -> None:
    """Train as many steps as are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", required=True)
    parser.add_argument("--rank", type=int, default=-1)
    parser.add_argument("--ms", type=float, default=30.0)
    parser.add_argument("--engine", choices=("ddp", "horovod"), default="ddp")
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    torch.set_num_threads(1)
    network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    rank, model, optimizer = with_engine(options.engine, network)
    bug_s = options.ms / 1e3 if rank == options.rank else 0.0

    def of(place: str) -> float:
        return bug_s if options.place == place else 0.0

    is_worker = options.place == "worker"
    # Behind a queue, only what takes longer than the rest of the step is waited for.
    data = Samples(options.steps, max(of("transform"), 2 * of("worker")))
    for step, batch in enumerate(DataLoader(data, batch_size=1, num_workers=int(is_worker))):
        optimizer.zero_grad()
        output = model(batch)
        time.sleep(0.015)
        lined_parts.normalize(of("numpy"))
        lined_parts.count(of("c-call"))
        lined_parts.tokens(of("loop"))
        loss = output.square().mean()
        output.register_hook(lambda gradient: lined_parts.hook(gradient, of("hook")))
        loss.backward()
        optimizer.step()
        if step % EVERY == EVERY - 1:
            lined_parts.save(network, EVERY * of("save"))


if __name__ == "__main__":
    main()
