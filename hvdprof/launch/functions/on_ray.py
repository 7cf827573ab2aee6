"""Functions started by ``horovod.ray.RayExecutor``, in the Ray session that is open here."""

import contextlib
from dataclasses import dataclass
from types import ModuleType

from hvdprof.collect.auto.recorded_function import RankEnd
from hvdprof.errors import EnvironmentNotReadyError, InterruptedRunError, MissingExtraError
from hvdprof.launch.functions.function_job import FunctionJob, call_session
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.processes.launch_process import Launch, LaunchOutcome

_START_TIMEOUT_S = 120


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
