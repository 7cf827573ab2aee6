"""Trying a Horovod out after its installation: a real allreduce, alone and with two ranks."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hvdprof.machine.hostname import hostname_resolves
from hvdprof.machine.install.horovod_features import HorovodBuild
from hvdprof.machine.mpi import MPICH, OPENMPI, Mpi

_TIMEOUT_S = 180
_GRACE_S = 10
_ALL_RIGHT = "hvdprof-allreduce-right"
_TORCH_PROGRAM = f"""
import sys
import torch
import horovod.torch as hvd
hvd.init()
total = float(hvd.allreduce(torch.tensor([float(hvd.rank() + 1)]), name="try", op=hvd.Sum))
size = hvd.size()
right = size == int(sys.argv[1]) and total == size * (size + 1) / 2
print("{_ALL_RIGHT}" if right else f"size {{size}}, sum {{total}}", flush=True)
hvd.shutdown()
sys.exit(0 if right else 1)
"""

# One step of SGD from 0 with the gradients 1, 2, ... of the ranks: it ends at minus their average.
_TENSORFLOW_PROGRAM = f"""
import sys
import tensorflow as tf
import horovod.tensorflow.keras as hvd
hvd.init()
size = hvd.size()
model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0))
model.compile(optimizer, loss=lambda wanted, found: found)
batch = tf.fill((1, 1), float(hvd.rank() + 1))
callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
model.fit(batch, batch, verbose=0, callbacks=[callback])
weight = float(tf.reduce_sum(model.get_weights()[0]))
right = size == int(sys.argv[1]) and weight == -(size + 1) / 2
print("{_ALL_RIGHT}" if right else f"size {{size}}, weight {{weight}}", flush=True)
hvd.shutdown()
sys.exit(0 if right else 1)
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One way in which Horovod was started: what it was, how it went, and why it failed."""

    what: str
    worked: bool
    reason: str = ""


def try_horovod(build: HorovodBuild, mpi: Mpi | None, python: str = sys.executable) -> list[Trial]:
    """Start the installed Horovod in every way it was built for, and compare an allreduce.

    Returns:
        For each framework one trial for a single process, for two ranks under ``mpirun`` where it
        was built with MPI, and for two ranks under ``horovodrun --gloo`` where it was built with
        Gloo.
    """
    environment = {**os.environ, **(mpi.environment(dict(os.environ)) if mpi else {})}
    # A trial shall find its own way, not that of a job in which this shell may be running.
    environment = {key: value for key, value in environment.items() if not _is_of_a_job(key)}
    programs = [("", _TORCH_PROGRAM)] if build.torch else []
    programs += [(" with Keras", _TENSORFLOW_PROGRAM)] if build.tensorflow else []
    trials = []
    for suffix, program in programs:
        own = [python, "-P", "-c", program]
        trials.append(_try(f"one process{suffix}", [*own, "1"], 1, environment))
        if build.mpi and mpi is not None:
            what = f"two ranks under mpirun ({mpi.title}){suffix}"
            trials.append(_try(what, [*mpi_try_command(mpi), *own, "2"], 2, environment))
        if build.gloo:
            what = f"two ranks under horovodrun --gloo{suffix}"
            trials.append(_try_gloo(what, own, environment))
    return trials


def mpi_try_command(mpi: Mpi) -> list[str]:
    """The launcher's part of a command that starts two ranks on this machine."""
    if mpi.flavour == OPENMPI:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [mpi.mpirun, *root, "--oversubscribe", "-np", "2"]
    return [mpi.mpirun, "-n" if mpi.flavour == MPICH else "-np", "2"]


def _try_gloo(what: str, own: list[str], environment: Mapping[str, str]) -> Trial:
    if not hostname_resolves():
        return Trial(what, worked=False, reason="the name of this machine does not resolve")
    horovodrun = str(Path(own[0]).parent / "horovodrun")
    command = [horovodrun, "--gloo", "-np", "2", "-H", "localhost:2"]
    return _try(what, [*command, *own, "2"], 2, environment)


def _try(what: str, command: list[str], size: int, environment: Mapping[str, str]) -> Trial:
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=dict(environment),
        )
    except OSError as error:
        return Trial(what, worked=False, reason=f"{command[0]}: {error.strerror}")
    with child:
        try:
            printed, errors = child.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _end(child)
            return Trial(what, worked=False, reason=f"no end within {_TIMEOUT_S} s")
    if child.returncode == 0 and printed.count(_ALL_RIGHT) == size:
        return Trial(what, worked=True)
    return Trial(what, worked=False, reason=_why(child.returncode, printed + errors))


def _end(launcher: "subprocess.Popen[str]") -> None:
    # Asked first: a launcher that is killed leaves its ranks behind.
    launcher.terminate()
    try:
        launcher.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        launcher.kill()


def _why(exit_code: int, text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    printed = [line for line in lines if line.strip("-* ")]
    errors = [line for line in printed if "rror" in line or "not found" in line or "failed" in line]
    first = (errors or printed or ["it printed nothing"])[0]
    return f"exit code {exit_code}: {first}"


def _is_of_a_job(name: str) -> bool:
    return name.startswith(("OMPI_COMM_", "PMI_", "PMIX_", "HOROVOD_"))
