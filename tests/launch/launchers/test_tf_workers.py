import sys

from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.launchers.tf_workers import TensorFlowWorkers


def test_one_process_of_its_own_starts_the_workers():
    job = Job(
        size=2,
        program=("python", "train.py", "--np=7"),
        hosts=None,
        environment={},
        passed_on=(),
        device="cpu",
    )

    command = TensorFlowWorkers().command(job)

    assert command[0] == sys.executable
    assert command[-5:] == ["--np=2", "--", "python", "train.py", "--np=7"]
    assert "hvdprof.launch.remote.tensorflow_workers" in command
