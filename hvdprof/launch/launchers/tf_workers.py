"""``--launcher tf``: the workers of ``tf.distribute``, on this host."""

from dataclasses import dataclass

from hvdprof.launch.launchers.launch_job import Job, Launcher
from hvdprof.launch.plan.provenance import python_program
from hvdprof.rundir.plan import TF_ENGINES, TF_OF_ONE_PROCESS, TF_PARAMETER_SERVER

_ON_THIS_HOST = "hvdprof.launch.remote.tensorflow_workers"


@dataclass(frozen=True, slots=True)
class TensorFlowWorkers:
    """Starts one worker per rank on this host, each with its place in ``TF_CONFIG``."""

    def command(self, job: Job) -> list[str]:
        """``python -m hvdprof.launch.remote.tensorflow_workers --np N -- PROGRAM``.

        Under ParameterServerStrategy with ``--parameter-server``.
        """
        size = 1 if job.engine in TF_OF_ONE_PROCESS else job.size
        server = ["--parameter-server"] if job.engine == TF_PARAMETER_SERVER else []
        return [*python_program(_ON_THIS_HOST, f"--np={size}", *server, "--"), *job.program]


@dataclass(frozen=True, slots=True)
class TensorFlowForItsEngines:
    """Starts ranks of ``tf.distribute`` by ``TensorFlowWorkers``, others by another launcher."""

    others: Launcher

    def command(self, job: Job) -> list[str]:
        """The argument list of the launcher that the job's engine needs."""
        launcher = TensorFlowWorkers() if job.engine in TF_ENGINES else self.others
        return launcher.command(job)
