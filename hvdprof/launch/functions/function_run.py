"""Measuring a function of the user: from the choices to a finished run directory."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hvdprof.errors import (
    EnvironmentNotReadyError,
    InterruptedRunError,
    StorageError,
    SweepIncompleteError,
    UsageError,
)
from hvdprof.launch.functions.function_job import FunctionJob, name_of, returned
from hvdprof.launch.functions.in_python import InPython
from hvdprof.launch.functions.on_ray import OnRay
from hvdprof.launch.functions.on_spark import OnSpark
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.preflight import AUTO, GLOO, MPI
from hvdprof.launch.plan.settings import DEFAULT_STALL_WARN_S
from hvdprof.launch.processes.launch_process import Launch, Outcome
from hvdprof.launch.remote.remote_launch import ready_hosts
from hvdprof.launch.run.bench_run import Tools, find_tools, make_run_folder, sweep_of
from hvdprof.launch.run.script_run import ScriptChoices, prepare_script
from hvdprof.launch.run.silent_observer import SilentObserver
from hvdprof.machine.mpi import OPENMPI, Mpi
from hvdprof.rundir.manifest import Manifest, Mode

HOROVOD_RUN, SPARK, RAY = "horovod.run", "spark", "ray"


class FunctionLauncher(Protocol):
    """Starts the ranks of a function in launch after launch."""

    def require(self, size: int) -> None:
        """Check that so many ranks can be started.

        Raises:
            MissingExtraError: What starts them is not installed.
            EnvironmentNotReadyError: They cannot be started here.
        """

    def command(self, job: Job) -> list[str]:
        """What the manifest says was started."""

    def run(self, launch: Launch) -> Outcome:
        """Run a launch to its end; what the ranks returned is in the function's ``values``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionChoices:
    """How a function is measured; the defaults are those of `hvdprof run`.

    Args:
        np: Number of ranks, or several, each with launches of its own.
        launcher: What starts the ranks, one of ``LAUNCHER_NAMES``.
        controller: How they find each other: ``auto``, ``gloo`` or ``mpi``.
        hosts: Hosts with slots, ``"h1:4,h2:4"``; None for this host. Spark and Ray place ranks.
        batch_size: Samples of a rank and step; seen in the batches when not given.
        num_warmup_batches: Steps before measuring.
        num_steps: Measured steps after which the function is ended, in all ranks alike; then it
            returns nothing. It runs to its own end when not given.
        repeats: Launches at every number of ranks.
        trace: Add a launch in which Horovod writes its timeline.
        num_timeline_steps: Steps that the timeline holds.
        num_threads: OMP_NUM_THREADS of a rank; left as it is when not given.
        device: ``auto``, ``cpu`` or ``cuda``: what ranks share for the count of slots.
        timeout_s: Seconds without a recorded step after which a launch is ended as hung.
        stall_warn_s: Seconds of waiting for one rank after which a stall is recorded; 0 for never.
        stall_kill_s: Seconds of such a stall after which the launch is ended.
        output: The run directory; ``runs/TIME-NAME`` when not given.
        name: A name for the run; the function's when not given.
    """

    np: int | Sequence[int] = 1
    launcher: str = HOROVOD_RUN
    controller: str = AUTO
    hosts: str | None = None
    batch_size: int | None = None
    num_warmup_batches: int = 5
    num_steps: int | None = None
    repeats: int = 1
    trace: bool = True
    num_timeline_steps: int = 50
    num_threads: int | None = None
    device: str = AUTO
    timeout_s: float = 1800.0
    stall_warn_s: float = DEFAULT_STALL_WARN_S
    stall_kill_s: float | None = None
    output: str | Path | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A finished run of a function: its directory, and what each launch returned, by rank.

    The launches stand in the order in which they ran, under the names of their passes.
    """

    folder: Path
    returned: dict[str, list[Any]]


def measure_function(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    choices: FunctionChoices,
) -> Measured:
    """Run a function under the recorder, at every number of ranks that was asked for.

    Raises:
        UsageError: A choice cannot be used, or the function cannot be sent to other processes.
        MissingExtraError: pyspark or ray is not installed.
        EnvironmentNotReadyError: This machine, another host, or the session of Spark or Ray, cannot
            run it; nothing has been started.
        SweepIncompleteError: A launch failed; the message says why, and the run directory keeps
            what was measured.
        InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
        StorageError: The run directory cannot be written.
    """
    make = _LAUNCHERS.get(choices.launcher)
    if make is None:
        raise UsageError(
            f"launcher={choices.launcher!r}: not known.", hint=f"Known: {', '.join(_LAUNCHERS)}"
        )
    if choices.hosts is not None and choices.launcher != HOROVOD_RUN:
        raise UsageError(
            f"launcher={choices.launcher!r} places ranks itself; hosts= is for {HOROVOD_RUN}.",
            hint="Omit hosts=.",
        )
    job = FunctionJob.of(function, args, kwargs)
    tools = find_tools()
    name = name_of(function)
    controller = _controller(choices, tools.mpi)
    manifest = _prepared(choices, tools, controller, name)
    with tempfile.TemporaryDirectory(prefix="hvdprof-") as own:
        launcher = make(job, Path(own), str(manifest.settings["controller"]), tools.mpi)
        launcher.require(max(manifest.settings["sizes"]))
        output = None if choices.output is None else Path(choices.output)
        folder = make_run_folder(manifest, output, choices.name or name)
        sweep = sweep_of(manifest, folder, tools, SilentObserver(), launcher=launcher)
        sweep.run_launch = launcher.run
        ready_hosts(sweep)
        # A function is not stored: no later process can resume its run.
        hint = f"What was measured: hvdprof analyze {folder}"
        try:
            sweep.run()
        except SweepIncompleteError:
            raise SweepIncompleteError(_failures(manifest), hint=hint) from None
        except (InterruptedRunError, StorageError) as error:
            error.hint = hint
            raise
    return Measured(folder, {name: returned(values) for name, values in job.values.items()})


def main_launch(manifest: Manifest) -> str:
    """The name of the pass whose values are those of the run: the first of the largest size."""
    measured = [record for record in manifest.passes if record.mode == Mode.THROUGHPUT]
    return max(measured, key=lambda record: (record.size, -record.repeat)).id


def _prepared(choices: FunctionChoices, tools: Tools, controller: str, name: str) -> Manifest:
    sizes = [choices.np] if isinstance(choices.np, int) else choices.np
    script = ScriptChoices(
        command=(choices.launcher, name),
        np=",".join(map(str, sizes)),
        hosts=choices.hosts,
        batch_size=choices.batch_size,
        num_warmup_batches=choices.num_warmup_batches,
        num_steps=choices.num_steps,
        num_timeline_steps=choices.num_timeline_steps,
        repeats=choices.repeats,
        trace=choices.trace,
        num_threads=choices.num_threads,
        timeout_s=choices.timeout_s,
        launcher=choices.launcher,
        stall_warn_s=choices.stall_warn_s,
        stall_kill_s=choices.stall_kill_s,
        function=name,
    )
    manifest = prepare_script(script, tools, controller=controller, device=choices.device)
    manifest.command = [choices.launcher, name]
    return manifest


def _controller(choices: FunctionChoices, mpi: Mpi | None) -> str:
    if choices.launcher != HOROVOD_RUN:
        if choices.controller == MPI:
            raise UsageError(f"launcher={choices.launcher!r} starts ranks of Gloo alone.")
        return GLOO
    # horovod.run cannot pass the options that Open MPI 5 needs.
    can_start = mpi is None or (mpi.horovodrun_works and not mpi.binding_args)
    if can_start:
        return choices.controller
    if choices.controller == MPI:
        raise EnvironmentNotReadyError(
            f"horovod.run cannot start ranks by {mpi.title if mpi else 'this MPI'}.",
            hint="controller='gloo', or: pip install openmpi==4.1.8",
        )
    return GLOO


def _failures(manifest: Manifest) -> str:
    reasons = [
        f"{record.id}: {segment.failure.reason.rstrip('.')}"
        for record in manifest.passes
        for segment in record.segments
        if segment.failure is not None
    ]
    return f"{len(reasons)} of {len(manifest.passes)} launches failed; {'; '.join(reasons)}."


def _in_python(
    function: FunctionJob, folder: Path, controller: str, mpi: Mpi | None
) -> FunctionLauncher:
    if mpi is None:
        return InPython(function, folder, controller, yields=False)
    path = mpi.search_path(os.environ.get("PATH", ""))
    return InPython(function, folder, controller, yields=mpi.flavour == OPENMPI, path=path)


_LAUNCHERS: dict[str, Callable[[FunctionJob, Path, str, Mpi | None], FunctionLauncher]] = {
    HOROVOD_RUN: _in_python,
    SPARK: lambda function, *_: OnSpark(function),
    RAY: lambda function, *_: OnRay(function),
}
LAUNCHER_NAMES = tuple(_LAUNCHERS)
