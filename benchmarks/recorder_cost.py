"""What the recorder costs per step: the same training with it on and off, in turn.

    python benchmarks/recorder_cost.py                        one process, plain torch
    mpirun -np 2 python benchmarks/recorder_cost.py           two ranks under Horovod

The method is that of ``hvdprof.bench_models.recorder_cost``, which `hvdprof selftest` uses too.
"""

import argparse
import os
import platform
import sys

import torch

from hvdprof.bench_models.horovod_engine import HorovodEngine
from hvdprof.bench_models.recorder_cost import Training, cost_plan, measured_cost, plain_job
from hvdprof.bench_models.training import Job
from hvdprof.collect.identity import identity_from_environment

CASES = (("mnist", 28, 64), ("resnet18", 32, 16))


def main() -> int:
    """Measure and print a table on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20, help="pairs of blocks, on and off")
    parser.add_argument("--steps", type=int, default=20, help="steps of a block")
    options = parser.parse_args()
    torch.set_num_threads(1)
    job = _job()
    if job.engine.identity.rank == 0:
        print(
            f"np {job.engine.identity.size}, torch {torch.__version__}, {os.cpu_count()} cores, "
            f"{platform.machine()}, load average {os.getloadavg()[0]:.1f}"
        )
        print("| model | step off | wall on / off | CPU on / off | direct cost | of a step |")
        print("|---|---|---|---|---|---|")
    for name, image_size, batch_size in CASES:
        training = Training(job, name, image_size, batch_size)
        cost = measured_cost(training, num_pairs=options.pairs, num_steps=options.steps)
        if job.engine.identity.rank == 0:
            print(
                f"| {name} {image_size}x{image_size}, batch {batch_size} "
                f"| {cost.step_s * 1e3:.1f} ms | {_interval_text(cost.wall)} "
                f"| {_interval_text(cost.cpu)} | {cost.direct_s * 1e6:.0f} µs "
                f"| {100 * cost.direct_s / cost.step_s:.2f} % |",
                flush=True,
            )
    return 0


def _interval_text(interval: tuple[float, float, float]) -> str:
    low, middle, high = interval
    return f"{middle:.4f} ({low:.4f} to {high:.4f})"


def _job() -> Job:
    identity = identity_from_environment()
    if identity is None:
        return plain_job()
    plan = cost_plan(identity.size)
    return Job(plan, "cpu", HorovodEngine(plan))


if __name__ == "__main__":
    sys.exit(main())
