"""The command line that a tuning names."""

import os
import shlex
import subprocess

import pytest

from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.launch.plan.tuned_command import tuned_command, tuned_setting
from hvdprof.model.results.tuning import Candidate

SCRIPT = RunOptions(command=("python", "train.py", "--name", "a b"))
BENCH = BenchOptions(models="mnist", np=(1, 2), output="runs/x")


def command_of(present, **setting):
    named = tuned_setting(Candidate(name="x", **setting), present)
    return tuned_command(named, present, 2)


def test_variables_stand_before_the_whole_command() -> None:
    assert command_of(SCRIPT, environment={"HOROVOD_CYCLE_TIME": "1"}) == (
        "HOROVOD_CYCLE_TIME=1 hvdprof run --np 2 -- python train.py --name 'a b'"
    )


@pytest.mark.parametrize("value", ["{0},{1}", "", "a b", "$HOME"])
def test_the_shell_sets_a_variable_to_the_value_that_was_measured(value: str) -> None:
    line = command_of(SCRIPT, environment={"OMP_PLACES": value})
    front = line.partition(" hvdprof run ")[0]
    shown = subprocess.run(
        ["sh", "-c", f"{front} printenv OMP_PLACES"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert shown.stdout == f"{value}\n"


def test_launch_options_and_arguments_of_the_script_stand_where_they_belong() -> None:
    line = command_of(SCRIPT, options={"controller": "mpi"}, arguments=("--note", "x y"))
    assert line == (
        "hvdprof run --np 2 --controller mpi -- python train.py --name 'a b' --note 'x y'"
    )
    setting = tuned_setting(
        Candidate(name="x", options={"controller": "mpi"}, arguments=("--note", "x y")), SCRIPT
    )
    assert setting.text == "--controller mpi --note 'x y'"


def test_threads_that_hvdprof_sets_are_named_as_they_were_measured() -> None:
    present = RunOptions(command=("python", "train.py"), num_threads=4)
    named = tuned_setting(Candidate(name="x", options={"num_threads": 2}), present)
    threads = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"}
    assert named.environment == dict.fromkeys(threads, "2")
    assert not named.options
    assert "--num-threads" not in tuned_command(named, present, 2)
    line = command_of(present, environment={"HOROVOD_CYCLE_TIME": "1"})
    assert "hvdprof run --np 2 --num-threads 4 -- " in line


def test_reference_models_keep_the_options_that_no_variable_replaces() -> None:
    setting = {"num_threads": 2, "fusion_threshold_mb": 0.5, "cycle_time_ms": 2.5}
    line = command_of(BENCH, options=setting)
    assert line == (
        "hvdprof bench --np 2 --models mnist --num-threads 2 --fusion-threshold-mb 0.5 "
        "--cycle-time-ms 2.5"
    )


def test_other_hosts_get_the_variables_by_an_option() -> None:
    present = RunOptions(command=("python", "t.py"), hosts="a:1,b:1", env=("X=1", "Y=2"))
    line = command_of(present, environment={"X": "3 4"})
    assert shlex.split(line)[:2] == ["hvdprof", "run"]
    assert "--hosts a:1,b:1" in line
    assert "--env Y=2 --env 'X=3 4'" in line and "X=1" not in line


def test_secrets_are_masked() -> None:
    present = RunOptions(command=("python", "t.py", "--token=hunter2"), env=("API_TOKEN=hunter3",))
    assert "hunter" not in command_of(present, environment={"A": "1"})


def test_arguments_of_ddp_are_variables_in_the_command_and_named_in_the_sentence() -> None:
    variables = {"HVDPROF_DDP_BUCKET_CAP_MB": "25", "HVDPROF_DDP_STATIC_GRAPH": "1"}
    present = RunOptions(command=("torchrun", "--nproc-per-node", "2", "train.py"))
    named = tuned_setting(
        Candidate(name="x", environment={"OMP_NUM_THREADS": "1", **variables}), present
    )
    assert named.text == "OMP_NUM_THREADS=1 bucket_cap_mb=25 static_graph=True"
    assert tuned_command(named, present, 2) == (
        "OMP_NUM_THREADS=1 HVDPROF_DDP_BUCKET_CAP_MB=25 HVDPROF_DDP_STATIC_GRAPH=1 "
        "hvdprof run --np 2 -- torchrun --nproc-per-node 2 train.py"
    )
