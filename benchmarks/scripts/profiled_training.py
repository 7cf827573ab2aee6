"""A DDP or FSDP2 script on Gloo that torch.profiler and hvdprof's recorder record at once.

``python -m benchmarks.scripts.profiled_training FOLDER --engine fsdp --fault
backward:rank=1:ms=12`` in each rank. Places: data, forward, backward, optimizer. FSDP2 gathers and
reduces each layer by itself. Computation is a sleep, so that two ranks fit on two cores; FOLDER
receives ``trace_rankN.json.gz``, and ``flight_rankN.json`` where TORCH_FR_BUFFER_SIZE is set.
"""

import argparse
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

from benchmarks.scripts.fault import Fault
from hvdprof import collect

STEP_S = 0.06
PARTS = {"data": 0.1, "forward": 0.3, "backward": 0.5, "optimizer": 0.05}
SKIPPED = 2
BATCH = 2


class Work:
    """Sleeps as long as a part of the step takes, with the fault of the rank."""

    def __init__(self, fault: Fault, rank: int) -> None:
        self.fault, self.rank, self.step = fault, rank, 0

    def do(self, part: str) -> None:
        """Take the time of a part of the step."""
        time.sleep(STEP_S * PARTS[part])
        if self.fault.hits(part, self.rank, self.step):
            time.sleep(self.fault.ms / 1000)


class Samples(Dataset[tuple[torch.Tensor, int]]):
    """Random samples; the first of each batch takes the time of the data part."""

    def __init__(self, num: int, work: Work) -> None:
        self.num, self.work = num, work

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        if number % BATCH == 0:
            self.work.do("data")
        return torch.randn(64), number % 4


class Net(torch.nn.Module):
    """Two layers with a part between them that takes the time of forward and backward."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, 1024), torch.nn.Linear(1024, 4)
        self.work = work

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The layers with the time of forward between them."""
        hidden = self.first(inputs)
        self.work.do("forward")
        if hidden.requires_grad:
            hidden.register_hook(lambda gradient: self.work.do("backward"))
        return self.last(hidden)


class Update(torch.optim.SGD):
    """SGD that takes the time of the optimizer part."""

    def __init__(self, params: Iterable[torch.nn.Parameter], work: Work) -> None:
        super().__init__(params, lr=0.1)
        self.work = work

    def step(self, closure: Any = None) -> Any:
        """The update, after the time of the part."""
        self.work.do("optimizer")
        return super().step(closure)


def reduced(model: Net, engine: str) -> torch.nn.Module:
    """The model under DDP; under FSDP2 with a group of parameters per layer."""
    if engine == "ddp":
        return DistributedDataParallel(model)
    for layer in (model.first, model.last):
        fully_shard(layer)
    fully_shard(model)
    return model


def main() -> None:
    """Train, and write the trace of this rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--fault", default="")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    work = Work(Fault.parse(options.fault), rank)
    torch.manual_seed(0)
    model = reduced(Net(work), options.engine)
    optimizer = Update(model.parameters(), work)
    num_steps = options.steps + SKIPPED
    batches = iter(DataLoader(Samples(BATCH * num_steps, work), batch_size=BATCH))
    collect.start()
    collect.watch(model, optimizer)
    profiled = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=options.steps),
        record_shapes=True,
    )
    with profiled as profiler:
        for work.step in range(num_steps):
            with collect.step(samples=BATCH):
                with collect.phase("data"):
                    inputs, labels = next(batches)
                with collect.phase("forward"):
                    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
                with collect.phase("backward"):
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()
    profiler.export_chrome_trace(str(options.folder / f"trace_rank{rank}.json.gz"))
    if os.environ.get("TORCH_FR_BUFFER_SIZE", "0") != "0":
        # The stubs of torch do not declare it.
        dump = vars(torch._C._distributed_c10d)["_dump_fr_trace_json"](True, False)
        (options.folder / f"flight_rank{rank}.json").write_bytes(dump)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
