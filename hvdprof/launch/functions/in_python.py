"""Functions started by ``horovod.run`` in a process of its own, or in the open session of Ray.

``python -m hvdprof.launch.functions.in_python FOLDER SIZE CONTROLLER HOSTS MPI_ARGS`` reads the
function from the folder, lets ``horovod.run`` call it in that many ranks, and writes their ends
there. A process of its own has the environment of the pass, and is ended as every other launcher
is.
"""

import contextlib
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from hvdprof.collect.auto.recorded_function import RankEnd
from hvdprof.errors import EnvironmentNotReadyError, InterruptedRunError, MissingExtraError
from hvdprof.launch.functions.function_job import FunctionJob, call_session
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.preflight import GLOO, MPI
from hvdprof.launch.processes.launch_process import Launch, LaunchOutcome, run_launcher
from hvdprof.rundir.written_file import open_whole

_FUNCTION = "function.pickle"
_ENDS = "ends.pickle"
# Waiting ranks of Open MPI would take the cores of those that compute.
_YIELDING = "--mca mpi_yield_when_idle 1 --oversubscribe"

_START_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class InPython:
    """Starts the ranks of a function by ``horovod.run``.

    ``folder`` is an empty one that other users cannot read: arguments may be secrets. ``path`` is
    the PATH in which Horovod finds the right ``mpirun``, None where it does anyway.
    """

    function: FunctionJob
    folder: Path
    controller: str
    yields: bool
    path: str | None = None

    def require(self, size: int) -> None:
        """Nothing: ranks may be more than processors."""

    def command(self, job: Job) -> list[str]:
        """``python -m`` this module, behind ``env`` where MPI needs it; see above."""
        yields = self.yields and self.controller == MPI and job.device != "cuda"
        path = ["env", f"PATH={self.path}"] if self.path and self.controller == MPI else []
        return [
            *path,
            # The function may import modules of the working directory.
            *(sys.executable, "-m", "hvdprof.launch.functions.in_python"),
            *(str(self.folder), str(job.size)),
            *(self.controller, job.hosts or "", _YIELDING if yields else ""),
        ]

    def run(self, launch: Launch) -> LaunchOutcome:
        """Run a launch to its end; what the ranks returned is in the function's ``values``."""
        ends = self.folder / _ENDS
        ends.unlink(missing_ok=True)
        with self.function.for_ranks(launch) as recorded:
            (self.folder / _FUNCTION).write_bytes(pickle.dumps(recorded))
            outcome = run_launcher(launch)
        came_back: list[RankEnd] = pickle.loads(ends.read_bytes()) if ends.exists() else []
        return self.function.take_back(came_back, launch, outcome)


def main(arguments: Sequence[str] | None = None) -> None:
    """Let ``horovod.run`` call the function, and write the ends of its ranks."""
    import horovod

    given = sys.argv[1:] if arguments is None else arguments
    folder, size, controller, hosts, mpi_args = given
    ends = horovod.run(
        pickle.loads((Path(folder) / _FUNCTION).read_bytes()),
        num_proc=int(size),
        hosts=hosts or None,
        use_gloo=controller == GLOO,
        use_mpi=controller == MPI,
        mpi_args=mpi_args or None,
    )
    # Whole or not at all: this process may be ended at any time.
    with open_whole(Path(folder) / _ENDS, binary=True) as file:
        pickle.dump(ends, file)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class OnRay:
    """Starts the ranks of a function as actors of the Ray session of this process."""

    function: FunctionJob

    def require(self, size: int) -> None:
        """Check that Ray is there, and has a processor for each rank.

        Raises:
            MissingExtraError: ray is not installed.
            EnvironmentNotReadyError: There is no session, or it is too small.
        """
        cores = int(active_ray().cluster_resources().get("CPU", 0))
        if cores < size:
            raise EnvironmentNotReadyError(
                f"The Ray session has {cores} CPUs, {size} ranks need as many.",
                hint=f"ray.init(num_cpus={size}), or a larger cluster",
            )

    def command(self, job: Job) -> list[str]:
        """``horovod.ray.RayExecutor NAME num_workers=N``."""
        return ["horovod.ray.RayExecutor", *job.program[1:], f"num_workers={job.size}"]

    def run(self, launch: Launch) -> LaunchOutcome:
        """Run a launch to its end; what the ranks returned is in the function's ``values``."""
        from horovod.ray import RayExecutor

        executor = RayExecutor(
            RayExecutor.create_settings(timeout_s=_START_TIMEOUT_S),
            num_workers=launch.job.size,
            use_gpu=launch.job.device == "cuda",
        )

        def end() -> None:
            # A second time there is nothing left to end.
            with contextlib.suppress(AttributeError):
                executor.shutdown()

        with self.function.for_ranks(launch) as recorded:

            def call() -> list[RankEnd]:
                executor.start(extra_env_vars=launch.job.environment)
                started = executor.run_remote(recorded)
                return [_end_of(rank, value) for rank, value in enumerate(started)]

            try:
                ended = call_session(call, launch, end)
            finally:
                end()
        return self.function.take_back(ended.ends, launch, ended.outcome)


def _end_of(rank: int, value: object) -> RankEnd:
    """The end of a rank, also where its actor is gone; those of the others are still worth having.

    Raises:
        InterruptedRunError: Ctrl-C or SIGTERM.
    """
    import ray

    try:
        end: RankEnd = ray.get(value)
    except InterruptedRunError:
        raise
    except Exception as error:
        return RankEnd(rank=rank, value=None, error=f"{type(error).__name__}: {error}")
    return end


def active_ray() -> ModuleType:
    """The module ``ray``, connected to a cluster.

    Raises:
        MissingExtraError: ray is not installed.
        EnvironmentNotReadyError: It is not connected.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("Running a function on Ray", extra="ray") from error
    if not ray.is_initialized():
        raise EnvironmentNotReadyError(
            "There is no Ray session in this process.", hint="ray.init(), or that of your cluster"
        )
    module: ModuleType = ray
    return module


if __name__ == "__main__":
    main()
