import sys
from dataclasses import replace

from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.launchers.torchrun import TensorFlowForItsEngines, TensorFlowWorkers, Torchrun

JOB = Job(
    size=2,
    program=("python", "train.py", "--np=7"),
    hosts=None,
    environment={},
    passed_on=(),
    device="cpu",
    engine="tf-multiworker",
)


def test_one_process_of_its_own_starts_the_workers():
    command = TensorFlowWorkers().command(JOB)

    assert command[0] == sys.executable
    assert command[-5:] == ["--np=2", "--", "python", "train.py", "--np=7"]
    assert "hvdprof.launch.remote.tensorflow_workers" in command


def test_a_strategy_of_one_process_has_one_worker():
    assert "--np=1" in TensorFlowWorkers().command(replace(JOB, engine="tf-mirrored"))


def test_a_parameter_server_is_started_beside_its_workers():
    command = TensorFlowWorkers().command(replace(JOB, engine="tf-parameter-server"))

    assert command[-6:-3] == ["--np=2", "--parameter-server", "--"]
    assert "--parameter-server" not in TensorFlowWorkers().command(JOB)


def test_ranks_of_other_engines_have_their_launcher():
    launcher = TensorFlowForItsEngines(Torchrun())

    assert launcher.command(JOB) == TensorFlowWorkers().command(JOB)
    of_ddp = replace(JOB, engine="ddp")
    assert launcher.command(of_ddp) == Torchrun().command(of_ddp)
