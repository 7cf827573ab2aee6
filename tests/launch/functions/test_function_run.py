from dataclasses import replace
from types import SimpleNamespace

import pytest

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.functions import function_run
from hvdprof.launch.functions.function_run import main_launch, measure_function
from hvdprof.launch.functions.in_python import InPython
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.run_options import FunctionOptions
from hvdprof.machine.mpi import Mpi
from hvdprof.rundir.manifest import Mode, PassRecord
from tests.builders.launches import launch_into

OPEN_MPI_4 = Mpi(
    flavour="openmpi",
    version="4.1.8",
    mpirun="/v/bin/mpirun",
    library_dir=None,
    horovodrun_works=True,
    binding_args="",
)
OPEN_MPI_5 = replace(OPEN_MPI_4, version="5.0.11", binding_args="--bind-to none")


def controller(mpi=OPEN_MPI_4, **choices):
    return function_run._controller(FunctionOptions(**choices), mpi)


def test_an_unknown_launcher_is_an_error_that_lists_the_known_ones():
    with pytest.raises(UsageError, match="launcher='flink'") as raised:
        measure_function(print, (), {}, FunctionOptions(launcher="flink"))
    assert raised.value.hint == "Known: horovod.run, spark, ray"


def test_the_choice_of_controller_is_left_alone_where_both_work():
    assert controller() == "auto"
    assert controller(None, controller="gloo") == "gloo"
    assert controller(controller="mpi") == "mpi"


def test_open_mpi_5_cannot_be_started_from_python():
    assert controller(OPEN_MPI_5) == "gloo"
    with pytest.raises(EnvironmentNotReadyError, match=r"Open MPI 5\.0\.11"):
        controller(OPEN_MPI_5, controller="mpi")


@pytest.mark.parametrize("launcher", ["spark", "ray"])
def test_sessions_start_ranks_of_gloo(launcher):
    assert controller(launcher=launcher) == "gloo"
    with pytest.raises(UsageError, match="Gloo alone"):
        controller(launcher=launcher, controller="mpi")


@pytest.mark.parametrize("launcher", ["spark", "ray"])
def test_sessions_place_ranks_themselves(launcher):
    with pytest.raises(UsageError, match=r"hosts= is for horovod\.run"):
        measure_function(print, (), {}, FunctionOptions(launcher=launcher, hosts="a:1"))


def record(number, mode, size, repeat):
    return PassRecord(
        id=f"{number:02d}",
        mode=mode,
        size=size,
        repeat=repeat,
        controller="gloo",
        oversubscribed=False,
        pinned=False,
        segments=[],
    )


def test_values_are_those_of_the_first_launch_at_the_largest_size():
    passes = [
        record(1, Mode.THROUGHPUT, 1, 1),
        record(2, Mode.THROUGHPUT, 2, 1),
        record(3, Mode.TRACE, 2, 1),
        record(4, Mode.THROUGHPUT, 2, 2),
    ]

    assert main_launch(SimpleNamespace(passes=passes)) == "02"


def command(controller="mpi", hosts=None, device="cpu", yields=True):
    launch = launch_into_nothing(hosts, device)
    return InPython(None, "/own", controller, yields).command(launch)


def launch_into_nothing(hosts, device):
    return Job(
        size=2,
        program=("horovod.run", "train"),
        hosts=hosts,
        environment={},
        passed_on=(),
        device=device,
    )


def test_the_command_that_calls_horovod_run():
    assert command("gloo")[1:] == [
        "-m",
        "hvdprof.launch.functions.in_python",
        "/own",
        "2",
        "gloo",
        "",
        "",
    ]
    assert command("gloo", hosts="a:1,b:1")[-2] == "a:1,b:1"


def test_the_right_mpirun_is_found_first():
    launcher = InPython(None, "/own", "mpi", yields=True, path="/v/bin:/bin")
    job = launch_into_nothing(None, "cpu")

    assert launcher.command(job)[:2] == ["env", "PATH=/v/bin:/bin"]
    assert replace(launcher, controller="gloo").command(job)[0] != "env"


def test_waiting_ranks_yield_their_core_under_open_mpi_without_gpus():
    assert "mpi_yield_when_idle" in command()[-1]
    assert command(device="cuda")[-1] == ""
    assert command(yields=False)[-1] == ""


def test_a_launch_that_brings_nothing_back_has_no_values(tmp_path, monkeypatch):
    from hvdprof.launch.functions import in_python
    from hvdprof.launch.functions.function_job import FunctionJob
    from hvdprof.launch.processes.launch_process import LaunchOutcome

    failed = LaunchOutcome(exit_code=1, hung=False, duration_s=1.0)
    monkeypatch.setattr(in_python, "run_launcher", lambda launch: failed)
    job = FunctionJob.of(print, (), {})
    (tmp_path / "own").mkdir()
    launcher = InPython(job, tmp_path / "own", "gloo", yields=False)

    assert launcher.run(launch_into(tmp_path / "pass")) == failed
    assert job.values == {"pass": [None, None]}
