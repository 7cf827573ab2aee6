"""Commands that start ranks by torchrun, in the terms of `hvdprof run`."""

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.launch.run.script_command import torchrun_command
from hvdprof.launch.run.script_launcher import check_launcher, started_by_torchrun


@pytest.mark.parametrize(
    ("command", "program", "size", "options"),
    [
        ("torchrun --nproc-per-node 2 train.py --lr 1", "python train.py --lr 1", 2, ""),
        ("/opt/bin/torchrun --nproc_per_node=4 train.py", "python train.py", 4, ""),
        ("torchrun train.py", "python train.py", None, ""),
        ("torchrun --standalone --nnodes=1 --max-restarts 3 t.py", "python t.py", None, ""),
        ("torchrun --rdzv-backend c10d --rdzv_endpoint=h:1 t.py", "python t.py", None, ""),
        ("torchrun --nproc-per-node 2 -m pkg.train -m x", "python -m pkg.train -m x", 2, ""),
        ("torchrun --no-python ./train.sh -x", "./train.sh -x", None, ""),
        ("torchrun --log_dir=logs -r 3 t.py", "python t.py", None, "--log-dir logs -r 3"),
        ("python -m torch.distributed.run --nproc-per-node 2 t.py", "python t.py", 2, ""),
        ("python3 -u -mtorch.distributed.launch --use-env t.py", "python t.py", None, ""),
        ("env A=1 torchrun --nproc-per-node 2 t.py", "env A=1 python t.py", 2, ""),
    ],
)
def test_the_parts_of_a_command(command, program, size, options):
    found = torchrun_command(tuple(command.split()))

    assert found is not None
    assert " ".join(found.program) == program
    assert found.num_ranks == size
    assert sorted(found.options) == sorted(options.split())


@pytest.mark.parametrize("command", ["python train.py", "./torchrun.sh t.py", "python -m pkg t.py"])
def test_another_program_is_no_torchrun(command):
    assert torchrun_command(tuple(command.split())) is None


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("torchrun --nproc-per-node gpu t.py", "no fixed number"),
        ("torchrun --nnodes=1:4 t.py", "no fixed number of nodes"),
        ("torchrun --nnodes=x t.py", "no fixed number of nodes"),
        ("torchrun --nproc-per-node 2", "names no script"),
        ("torchrun --no-such-option 2 t.py", "not an option"),
    ],
)
def test_what_hvdprof_cannot_start_is_refused(command, message):
    with pytest.raises(UsageError, match=message):
        torchrun_command(tuple(command.split()))


def options(command, **changes):
    return RunOptions(command=tuple(command.split()), **changes)


def test_np_goes_before_the_number_of_the_command():
    asked = options("torchrun --nproc-per-node 4 t.py", np="1,2")

    started, _ = started_by_torchrun(asked)

    assert (started.launcher, started.np, started.command) == (
        "torchrun",
        "1,2",
        ("python", "t.py"),
    )


def test_a_command_without_a_number_starts_one_rank_as_torchrun_does():
    assert started_by_torchrun(options("torchrun t.py"))[0].np == 1


def test_another_launcher_would_start_torchrun_in_every_rank():
    with pytest.raises(UsageError, match="would start torchrun in every rank"):
        started_by_torchrun(options("torchrun t.py", launcher="mpirun"))


def test_options_of_horovod_do_not_go_with_torchrun():
    with pytest.raises(UsageError):
        check_launcher(options("python t.py", launcher="torchrun", controller="gloo"))
    check_launcher(options("python t.py", controller="gloo"))


def test_several_nodes_are_the_hosts_of_hvdprof():
    command = "torchrun --nnodes=2:2 --node-rank 0 --nproc-per-node 4 t.py"
    with pytest.raises(UsageError, match="starts torchrun on the hosts itself") as error:
        started_by_torchrun(options(command))
    assert "--hosts h1:4,h2:4" in error.value.hint
    started, _ = started_by_torchrun(options(command, hosts="h1:4,h2:4"))
    assert (started.np, started.launcher, started.hosts) == (8, "torchrun", "h1:4,h2:4")
    check_launcher(started)
