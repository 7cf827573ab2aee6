"""The job of a seed of ``benchmarks/machine_draw.py``, as a training script of two ranks.

``--seed N`` with the fault, ``--clean`` without. A rank with a CPU quota puts itself into a control
group, one in swap its memory, and busy neighbours run beside it on its core; all need Linux, and
the groups root.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.machine_draw import ALL, Job, draw
from benchmarks.swap_file import MEMORY_GROUPS
from tests.builders.no_compiler import leave_out_compiler

_GROUPS = Path("/sys/fs/cgroup/cpu")
"""Of version 1; where the groups are of version 2, it has another place and other files."""

TOUCHED_MB = 4
"""Of the memory that a rank holds, in each step, one part after the other."""


def own_rank() -> int:
    """The rank by the environment, before the engine starts."""
    names = ("RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    return int(next(os.environ[name] for name in names if name in os.environ))


def lose(ms: float, *, on_core: bool) -> None:
    """Take so many milliseconds, of a core or waiting."""
    if not on_core:
        time.sleep(ms / 1e3)
        return
    end_s = time.thread_time() + ms / 1e3
    while time.thread_time() < end_s:
        pass


class Samples(Dataset[Tensor]):
    """Samples that take the time of the job to load."""

    def __init__(self, job: Job, number: int, *, is_faulty: bool) -> None:
        self.job, self.number, self.is_faulty = job, number, is_faulty
        self.is_open = False

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> Tensor:
        return self.decode(index)

    def decode(self, index: int) -> Tensor:
        """One sample."""
        job = self.job
        if not self.is_open:
            time.sleep(job.start_ms / 1e3)
            self.is_open = True
        ms = batch_ms(job, index // job.batch, is_faulty=self.is_faulty) / job.batch
        lose(0.0 if job.in_collate else ms, on_core=job.on_core)
        return torch.full((64,), float(index % 7))

    def collate(self, samples: list[Tensor]) -> Tensor:
        """Put a batch together."""
        if self.job.in_collate:
            lose(batch_ms(self.job, 0, is_faulty=self.is_faulty), on_core=False)
        return torch.stack(samples)


def batch_ms(job: Job, number: int, *, is_faulty: bool) -> float:
    """What the loading of a batch takes."""
    return job.load_ms if is_faulty and number % job.burst == job.burst - 1 else job.usual_ms


@contextlib.contextmanager
def conditions(job: Job, rank: int) -> Iterator[None]:
    """What the machine does to the rank while it runs."""
    group = _GROUPS / f"hvdprof-machine-{os.getpid()}"
    busy: list[subprocess.Popen[bytes]] = []
    if job.is_pinned:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[0 if job.shares_core else rank % len(cores)]})
    try:
        if rank == job.rank and job.quota < 1:
            group.mkdir()
            (group / "cpu.cfs_quota_us").write_text(f"{round(100_000 * job.quota)}")
            (group / "cgroup.procs").write_text(f"{os.getpid()}")
        if rank == job.rank:
            spin = [sys.executable, "-S", "-c", "while True: pass"]
            environment = {"PATH": os.environ["PATH"]}
            busy = [subprocess.Popen(spin, env=environment) for _ in range(job.neighbours)]
            for process in busy:
                os.setpriority(os.PRIO_PROCESS, process.pid, 0)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
        if group.exists():
            (_GROUPS / "cgroup.procs").write_text(f"{os.getpid()}")
            group.rmdir()


@contextlib.contextmanager
def held_memory(job: Job, *, is_faulty: bool) -> Iterator[Tensor]:
    """The memory that a rank holds; two fifths of it in swap where it is limited."""
    groups = MEMORY_GROUPS
    group = groups / f"hvdprof-machine-{os.getpid()}"
    num = round(job.held_mb * 250_000) if is_faulty else 0
    is_limited = job.is_limited and is_faulty
    if is_limited:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(f"{round(2.4 * num)}")
        (group / "cgroup.procs").write_text(f"{os.getpid()}")
    try:
        yield torch.rand(num)
    finally:
        if is_limited:
            (groups / "cgroup.procs").write_text(f"{os.getpid()}")
            group.rmdir()


def with_engine(engine: str, model: nn.Module) -> tuple[nn.Module, Any]:
    """The model and its optimizer, whose gradients are averaged."""
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.01)
    if engine == "ddp":
        torch.distributed.init_process_group("gloo")
        return nn.parallel.DistributedDataParallel(model), optimizer
    import horovod.torch as hvd

    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return model, hvd.DistributedOptimizer(optimizer, model.named_parameters())


def batches(job: Job, data: Samples) -> Iterator[Tensor]:
    """The batches of all epochs."""
    loader = DataLoader(
        data,
        job.batch,
        num_workers=job.workers,
        prefetch_factor=job.prefetch if job.workers else None,
        persistent_workers=job.persistent and job.workers > 0,
        collate_fn=data.collate,
    )
    for _ in range(job.num_steps // job.epoch if job.epoch else 1):
        yield from loader


def train(job: Job, rank: int) -> None:
    """Train for the steps of the job."""
    model, optimizer = with_engine(job.engine, nn.Sequential(nn.Linear(64, 256), nn.Linear(256, 8)))
    is_faulty = job.rank in (ALL, rank)
    data = Samples(job, (job.epoch or job.num_steps) * job.batch, is_faulty=is_faulty)
    grown: list[Tensor] = []
    with held_memory(job, is_faulty=is_faulty) as held:
        for number, batch in enumerate(batches(job, data)):
            _step(job, model, optimizer, batch, held, number)
            if is_faulty and job.grow_mb:
                grown.append(torch.ones(round(job.grow_mb * 250_000)))


def _step(
    job: Job,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Tensor,
    held: Tensor,
    number: int,
) -> None:
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    lose(job.step_ms, on_core=job.is_pinned)
    if len(held):
        size = TOUCHED_MB * 250_000
        begin = number % (len(held) // size) * size
        held[begin : begin + size].add_(1.0)
    loss.backward()
    optimizer.step()


def main() -> None:
    """Train the job of a seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--num-steps", type=int, required=True)
    options = parser.parse_args()
    job = draw(options.seed)
    job = replace(job.clean() if options.clean else job, num_steps=options.num_steps)
    torch.set_num_threads(1)
    rank = own_rank()
    with conditions(job, rank):
        train(job, rank)
    if job.engine == "ddp":
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    leave_out_compiler()
    main()
