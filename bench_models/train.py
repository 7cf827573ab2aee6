"""Started in every rank: ``python -m hvdprof.bench_models.train --plan plan.json``.

Exit codes: 0 when all segments have run, 1 with a traceback when something failed, 3 when the
engine did not join as many ranks as the plan says.
"""

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from hvdprof import collect
from hvdprof.bench_models.placement import pin_to_own_cores
from hvdprof.collect.host_facts import identity_from_environment
from hvdprof.collect.turn_gate import TurnGate, turn_gate
from hvdprof.errors import UsageError
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.plan import (
    DATA_PARALLEL_ENGINE,
    DDP_ENGINE,
    HOROVOD_ENGINE,
    RECORDED_ONCE,
    TF_ENGINES,
    TORCH_ENGINE,
    Plan,
    Segment,
)
from hvdprof.units import milliseconds

if TYPE_CHECKING:
    from hvdprof.bench_models.engine import Engine
    from hvdprof.bench_models.training import Job

WRONG_SIZE_EXIT_CODE = 3

# Imported only when a segment needs them: Horovod takes its time, and need not be there for DDP.
_ENGINES = {
    TORCH_ENGINE: "hvdprof.bench_models.engine:PlainTorch",
    HOROVOD_ENGINE: "hvdprof.bench_models.horovod_engine:HorovodEngine",
    DATA_PARALLEL_ENGINE: "hvdprof.bench_models.ddp_engine:DataParallelEngine",
    DDP_ENGINE: "hvdprof.bench_models.ddp_engine:DdpEngine",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the plan of a pass as one of its ranks; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m hvdprof.bench_models.train", description=__doc__
    )
    parser.add_argument("--plan", type=Path, required=True, help="the plan.json of the pass")
    plan_path: Path = parser.parse_args(arguments).plan
    plan = Plan.read(plan_path)
    if plan.segments[0].engine in TF_ENGINES:
        from hvdprof.bench_models.parameter_server import run_plan

        joined = run_plan(plan)
        is_whole = joined == plan.size
        return 0 if is_whole else _wrong_size(joined, plan.size, "the strategy joined")
    # Without variables of a launcher, hvd.init() finds the other ranks.
    expected = identity_from_environment()
    num_processes = 1 if plan.segments[0].engine in RECORDED_ONCE else plan.size
    if expected is not None and expected.size != num_processes:
        return _wrong_size(expected.size, plan.size, "the launcher started")
    if plan.pin_cores and (expected is not None or plan.size == 1):
        pin_to_own_cores(expected.local_rank if expected else 0, plan.num_threads)

    # Not before: torch sizes its thread pools by the cores it finds when it is imported.
    import torch

    from hvdprof.bench_models.placement import defer_compiler

    defer_compiler()
    torch.set_num_threads(plan.num_threads)
    return _run(plan, PassPaths(plan_path.resolve().parent))


def _run(plan: Plan, paths: PassPaths) -> int:
    from hvdprof.bench_models.training import Job

    engines: list[Engine] = []
    gate: TurnGate | None = None
    for name in dict.fromkeys(segment.engine for segment in plan.segments):
        engine = _engine(name, plan)
        place = engine.identity
        if place.size != plan.size:
            return _wrong_size(place.size, plan.size, f"{name} joined")
        device = _device_of(plan, place.local_rank)
        if not engines:
            collect.start(**asdict(place), device=device)
            gate = turn_gate(place.rank)
            # What is imported stays. To look at all of it takes the collector 50 ms, in the middle
            # of steps, and in each rank in another one.
            gc.freeze()
        engines.append(engine)
        for segment in plan.segments:
            if segment.engine == name:
                _run_one(Job(plan, device, engine, gate), segment, paths)
    # Ranks compare their clocks once more, through the engine.
    collect.stop()
    if gate is not None:
        gate.close()
    for engine in engines:
        engine.close()
    return 0


def _engine(name: str, plan: Plan) -> "Engine":
    if name not in _ENGINES:
        raise UsageError(f"The plan asks for the engine {name!r}, which is not known.")
    module, made = _ENGINES[name].split(":")
    engine: Engine = getattr(importlib.import_module(module), made)(plan)
    return engine


def _device_of(plan: Plan, local_rank: int) -> str:
    if plan.device != "cuda":
        return plan.device
    import torch

    # Some launchers make one GPU visible to each rank: every rank's own is number 0 then.
    index = local_rank % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return f"cuda:{index}"


def _run_one(job: "Job", segment: Segment, paths: PassPaths) -> None:
    from hvdprof.bench_models.training import run_segment

    outcome = run_segment(job, segment, paths.timeline(segment.id))
    if job.engine.identity.rank == 0:
        sys.stdout.write(
            f"{segment.id}: {segment.model}, np {job.plan.size}, {outcome.num_steps} steps, "
            f"{milliseconds(outcome.mean_step_ns)} per step\n"
        )
        sys.stdout.flush()


def _wrong_size(actual: int, wanted: int, who: str) -> int:
    sys.stderr.write(
        f"The plan is for {wanted} ranks, but {who} {actual}. Where every process reports size 1, "
        "the launcher and Horovod's controller (MPI or Gloo) do not belong together.\n"
    )
    return WRONG_SIZE_EXIT_CODE


def leave(code: int) -> NoReturn:
    """End the process; where all has gone well, without taking torch apart, which takes its time.

    Everything is written by then, and the engines are closed.
    """
    if code:
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    leave(main())
