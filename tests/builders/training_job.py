"""Plans for tests, and real ranks that run them."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvdprof.launch.launchers.batch_launch import Torchrun
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.plan import PLAN_SCHEMA_VERSION, Plan, Segment
from tests.builders.lean_start.warm_proxy import VARIABLE as WARM
from tests.builders.places import LEAN_START, ROOT

BIN = Path(sys.executable).parent
TRAIN = (sys.executable, "-m", "hvdprof.bench_models.train")
FAULTY_TRAIN = (sys.executable, str(ROOT / "tests" / "builders" / "faulty_train.py"))

_OF_A_JOB = ("HOROVOD_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "HVDPROF_")


def segment(segment_id: str, **values: Any) -> Segment:
    """A short mnist segment; what matters to the test is given."""
    defaults: dict[str, Any] = {
        "engine": "horovod",
        "model": "mnist",
        "compression": "none",
        "reduction": "average",
        "batch_size": 8,
        "image_size": 28,
        "num_warmup_batches": 1,
        "num_steps": 4,
        "max_seconds": None,
        "timeline": False,
    }
    return Segment(id=segment_id, **defaults | values)


def plan(size: int, *segments: Segment, **values: Any) -> Plan:
    """A plan of one thread per rank on synthetic data; the test gives what matters to it."""
    defaults: dict[str, Any] = {
        "pass_id": "pass",
        "mode": "throughput",
        "num_threads": 1,
        "pin_cores": False,
        "device": "cpu",
        "data": "synthetic",
        "data_dir": None,
        "seed": 3,
    }
    return Plan(
        schema_version=PLAN_SCHEMA_VERSION, size=size, segments=list(segments), **defaults | values
    )


def mpirun(size: int) -> list[str]:
    """Open MPI's launcher for that many ranks on this machine."""
    options = "--allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1"
    return [str(BIN / "mpirun"), *options.split(), "-np", str(size)]


def horovodrun(size: int) -> list[str]:
    """Horovod's launcher with the Gloo controller."""
    return [str(BIN / "horovodrun"), "--gloo", "-np", str(size)]


def torchrun(size: int) -> list[str]:
    """PyTorch's launcher, for ranks of DDP on this machine."""
    job = Job(size=size, program=(), hosts=None, environment={}, passed_on=(), device="cpu")
    return Torchrun().command(job)


@dataclass(frozen=True)
class Ended:
    """How a job ended and where it wrote."""

    exit_code: int
    stdout: str
    stderr: str
    paths: PassPaths


def run_job(
    launcher: list[str],
    the_plan: Plan,
    folder: Path,
    *options: str,
    program: tuple[str, ...] = TRAIN,
    timeout_s: float = 120,
    **environment: str,
) -> Ended:
    """Run a plan in real ranks; see ``run_ranks``."""
    paths = PassPaths(folder)
    the_plan.write(paths.plan)
    command = [*launcher, *program, "--plan", str(paths.plan), *options]
    return run_ranks(command, folder, timeout_s=timeout_s, **environment)


def run_ranks(
    command: list[str], folder: Path, *, timeout_s: float = 120, **environment: str
) -> Ended:
    """Run a command with the recorder on; what outlasts ``timeout_s`` is killed with its group."""
    paths = PassPaths(folder)
    clean = {
        name: value
        for name, value in os.environ.items()
        if name == WARM or not name.startswith(_OF_A_JOB)
    }
    is_lean = str(LEAN_START) in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [str(LEAN_START), str(ROOT)] if is_lean else [str(ROOT)]
    set_here = {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(folders),
        "OMP_NUM_THREADS": "1",
        "HVDPROF_RECORDER_DIR": str(paths.recorder_folder),
    }
    process = subprocess.Popen(
        command,
        env=clean | set_here | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return Ended(process.returncode, stdout, stderr, paths)
