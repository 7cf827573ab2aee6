"""What the ranks of a pass run, a reference model or a script, and its versions and commit."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from hvdprof import __version__
from hvdprof.collect.auto.startup import FOLDER as STARTUP_FOLDER
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.options import TORCHRUN
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.launch.plan.settings import Settings
from hvdprof.machine.install.horovod_features import HorovodBuild
from hvdprof.machine.mpi import Mpi
from hvdprof.rundir.launch_format import AUTORECORD, AutoSettings
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Mode, PassRecord
from hvdprof.rundir.plan import (
    DATA_PARALLEL_ENGINE,
    LEAST_STEPS_OF_RESULT,
    OTHER_ENGINES,
    TF_ENGINES,
    TORCH_DISTRIBUTED_ENGINES,
)

TRAINING_MODULE = "hvdprof.bench_models.train"
SCRIPT_SEGMENT = "main"

OMP_THREADS = "OMP_NUM_THREADS"
_TORCH_THREADS = (OMP_THREADS, "MKL_NUM_THREADS")

# Otherwise a program that starts in a clone of Horovod's source would import the clone.
INSTALLED_ALONE = {"PYTHONSAFEPATH": "1"}
"""Keeps the current folder out of ``sys.path`` of hvdprof's own programs."""


def program_of(settings: Settings, plan: Path) -> tuple[str, ...]:
    """The program that every rank of a pass runs."""
    if settings.script is None:
        return python_program(TRAINING_MODULE, "--plan", str(plan))
    return settings.script.command


def thread_variables(num_threads: int) -> dict[str, str]:
    """The variables by which torch, MKL and TensorFlow take a number of threads."""
    # TensorFlow reads only the last.
    return dict.fromkeys((*_TORCH_THREADS, "TF_NUM_INTRAOP_THREADS"), str(num_threads))


def workload_environment(
    settings: Settings, record: PassRecord, paths: PassPaths, python_path: str
) -> dict[str, str]:
    """The variables that are set for the program of the ranks alone.

    Reference models get their threads. A script keeps its environment, except for the folder at
    the front of PYTHONPATH that starts its recording. A function starts its recording itself,
    because its launcher may set PYTHONPATH.
    """
    options = settings.options
    if isinstance(options, BenchOptions):
        return dict.fromkeys(_TORCH_THREADS, str(settings.num_threads)) | INSTALLED_ALONE
    # Horovod alone writes one.
    automatic = AutoSettings(
        num_warmup_steps=settings.num_warmup_batches,
        num_steps=options.num_steps,
        batch_size=settings.models[0].batch_size or None,
        timeline=str(paths.timeline(SCRIPT_SEGMENT))
        if record.mode != Mode.THROUGHPUT and record.engine not in OTHER_ENGINES
        else "",
        num_timeline_steps=options.num_timeline_steps,
    )
    variables = {AUTORECORD: automatic.to_text()}
    if isinstance(options, RunOptions):
        folders = [str(STARTUP_FOLDER), *filter(None, [python_path])]
        variables["PYTHONPATH"] = os.pathsep.join(folders)
    if options.num_threads is not None:
        variables |= thread_variables(settings.num_threads)
    elif settings.launcher == TORCHRUN and OMP_THREADS not in os.environ:
        # torchrun does so itself, but not for a single rank: the baseline would have more threads.
        variables[OMP_THREADS] = "1"
    return variables


def least_partial_steps(settings: Settings) -> int | None:
    """Steps after which a failed launch has a result; None where only complete launches have."""
    if settings.script is None:
        return None
    return settings.num_warmup_batches + LEAST_STEPS_OF_RESULT


def versions(horovod: HorovodBuild, mpi: Mpi | None) -> dict[str, str]:
    """Versions of what a result depends on, by name."""
    known = {
        "hvdprof": __version__,
        "python": platform.python_version(),
        "torch": horovod.torch_version,
        "tensorflow": horovod.tensorflow_version,
        "horovod": horovod.version,
        "system": platform.platform(),
    }
    known = {name: version for name, version in known.items() if version}
    if mpi is not None:
        known["mpi"] = f"{mpi.flavour} {mpi.version}"
    if horovod.nccl_version:
        known["nccl"] = horovod.nccl_version
    return known


def git_state(folder: Path) -> dict[str, str | bool | None] | None:
    """Commit and cleanness of the working tree that a folder lies in; None outside of one.

    ``dirty`` is None where git does not answer within seconds, as over a slow network.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    # The user's index must not change.
    changes = _git(folder, "--no-optional-locks", "status", "--porcelain")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def python_program(module: str, *arguments: str) -> tuple[str, ...]:
    """The argument list that runs a module in this interpreter, on every rank alike.

    The working directory is not searched for imports: a ``json.py`` in it would run. It is where
    hvdprof itself was found there, as in a checkout that is not installed.
    """
    try:
        found_here = Path(__file__).resolve().parents[3] == Path.cwd().resolve()
    except OSError:
        # A script has removed it.
        found_here = False
    safe = () if found_here else ("-P",)
    return (sys.executable, *safe, "-m", module, *arguments)


def _git(folder: Path, *arguments: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    try:
        answer = subprocess.run(
            [git, "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def backend_of(settings: Settings, engine: str) -> str:
    """What the ranks reduce with: Horovod's controller, or the backend of another engine."""
    if engine in TORCH_DISTRIBUTED_ENGINES:
        return "nccl" if settings.device == "cuda" else "gloo"
    if engine == DATA_PARALLEL_ENGINE:
        return "copies"
    return "grpc" if engine in TF_ENGINES else settings.controller
