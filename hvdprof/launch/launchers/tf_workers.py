"""``--launcher tf``: the workers of ``tf.distribute``, on this host."""

from dataclasses import dataclass

from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.provenance import python_program

_ON_THIS_HOST = "hvdprof.launch.remote.tensorflow_workers"


@dataclass(frozen=True, slots=True)
class TensorFlowWorkers:
    """Starts one worker per rank on this host, each with its place in ``TF_CONFIG``."""

    def command(self, job: Job) -> list[str]:
        """``python -m hvdprof.launch.remote.tensorflow_workers --np N -- PROGRAM``."""
        return [*python_program(_ON_THIS_HOST, f"--np={job.size}", "--"), *job.program]
