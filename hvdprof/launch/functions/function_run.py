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
from hvdprof.launch.functions.in_python import InPython, OnRay
from hvdprof.launch.functions.on_spark import OnSpark
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.preflight import GLOO, MPI
from hvdprof.launch.plan.run_options import (
    FUNCTION_LAUNCHERS,
    HOROVOD_RUN,
    RAY,
    SPARK,
    FunctionOptions,
)
from hvdprof.launch.processes.launch_process import Launch, LaunchOutcome
from hvdprof.launch.remote.remote_launch import ready_hosts
from hvdprof.launch.run.bench_run import sweep_of
from hvdprof.launch.run.run_folder import make_run_folder
from hvdprof.launch.run.script_launcher import find_tools
from hvdprof.launch.run.script_run import prepare_function
from hvdprof.launch.run.sweep_state import SilentProgress
from hvdprof.machine.mpi import OPENMPI, Mpi
from hvdprof.rundir.manifest import Manifest, Mode


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

    def run(self, launch: Launch) -> LaunchOutcome:
        """Run a launch to its end; what the ranks returned is in the function's ``values``."""


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
    options: FunctionOptions,
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
    make = _LAUNCHERS.get(options.launcher)
    if make is None:
        raise UsageError(
            f"launcher={options.launcher!r}: not known.",
            hint=f"Known: {', '.join(FUNCTION_LAUNCHERS)}",
        )
    if options.hosts is not None and options.launcher != HOROVOD_RUN:
        raise UsageError(
            f"launcher={options.launcher!r} places ranks itself; hosts= is for {HOROVOD_RUN}.",
            hint="Omit hosts=.",
        )
    job = FunctionJob.of(function, args, kwargs)
    tools = find_tools()
    name = name_of(function)
    controller = _controller(options, tools.mpi)
    manifest = prepare_function(options, name, tools, controller=controller)
    with tempfile.TemporaryDirectory(prefix="hvdprof-") as own:
        launcher = make(job, Path(own), str(manifest.settings["controller"]), tools.mpi)
        launcher.require(max(manifest.settings["sizes"]))
        folder = make_run_folder(manifest, options.folder, manifest.name)
        sweep = sweep_of(manifest, folder, tools, SilentProgress(), launcher=launcher)
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


def _controller(options: FunctionOptions, mpi: Mpi | None) -> str:
    if options.launcher != HOROVOD_RUN:
        if options.controller == MPI:
            raise UsageError(f"launcher={options.launcher!r} starts ranks of Gloo alone.")
        return GLOO
    # horovod.run cannot pass the options that Open MPI 5 needs.
    can_start = mpi is None or (mpi.horovodrun_works and not mpi.binding_args)
    if can_start:
        return options.controller
    if options.controller == MPI:
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
