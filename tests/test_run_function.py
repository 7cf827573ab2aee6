"""Functions under the recorder, started by `horovod.run` with real Horovod."""

import signal
import subprocess
import sys
import time

import pytest

from hvdprof.api import FunctionRunner, analyze_run, load_run
from hvdprof.errors import SweepIncompleteError, UsageError
from hvdprof.launch.functions import function_job
from hvdprof.launch.run.bench_run import read_for_resuming
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders.network_hosts import network_hosts
from tests.builders.running_command import pids_in_step, wait_for
from tests.builders.user_function import BATCH, train

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.timeout(900)]

STEPS = 512 // 2 // BATCH

# What a notebook does: no file, no guard, a function that stands nowhere but here.
NOTEBOOK = """
from hvdprof.api import FunctionRunner
factor = 3

def cell(epochs):
    import horovod.torch as hvd
    import torch
    from tests.builders.no_compiler import leave_out_compiler
    leave_out_compiler()
    hvd.init()
    model = torch.nn.Linear(8, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01))
    for _ in range(40 * epochs):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).sum().backward()
        optimizer.step()
    return factor * hvd.rank()

run = FunctionRunner(np=2, controller="gloo", trace=False, output=FOLDER).run(cell, epochs=1)
print(run.returned, run.analyze().verdict.sentence)
"""


def own_steps(run, launch="throughput"):
    steps = run.load().steps
    of_launch = steps["pass_id"].astype(str).str.contains(launch)
    return steps[of_launch & ~steps["warmup"]]


@pytest.mark.ran(
    "functions by `FunctionRunner` ([from Python](python.md))",
    "`horovod.run` with Gloo",
    "one host, 1 and 2 ranks",
)
def test_a_function_is_measured_as_a_script_is(tmp_path):
    run = FunctionRunner(np=[1, 2], controller="gloo", output=tmp_path / "r").run(train, 3)

    assert run.returned == [{"rank": rank, "size": 2, "steps": 3 * STEPS} for rank in (0, 1)]
    assert list(run.returned_by_launch) == [
        "01-np1-throughput-r1",
        "02-np2-throughput-r1",
        "03-np2-trace-r1",
    ]
    assert Manifest.read(run.folder).status == Status.DONE
    # On a machine that others use, that it is too busy comes first.
    assert "train on 2 ranks:" in run.analyze().verdict.sentence
    of_two = own_steps(run, "np2-throughput")
    assert of_two.groupby("rank").size().tolist() == [3 * STEPS - 5] * 2
    assert set(of_two["samples"]) == {BATCH}
    for part in ("data", "forward", "backward", "optimizer"):
        assert (of_two[f"{part}_ns"] > 0).mean() > 0.95, part
    assert len(run.analyze().table("collectives"))
    printed = (run.folder / "passes" / "02-np2-throughput-r1" / "stdout.txt").read_text()
    assert f"{3 * STEPS} steps" in printed
    assert not list(run.folder.glob("passes/*/seen-mark"))


def test_a_notebook_cell_needs_no_module_and_no_guard(tmp_path):
    code = NOTEBOOK.replace("FOLDER", repr(str(tmp_path / "r")))
    ended = subprocess.run(
        [sys.executable, "-"], input=code, capture_output=True, text=True, timeout=600
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("[0, 3] cell on 2 ranks:")


def test_a_function_is_ended_after_the_steps_asked_for(tmp_path):
    runner = FunctionRunner(
        np=2, num_steps=12, num_warmup_batches=3, trace=False, output=tmp_path / "r"
    )
    run = runner.run(train, epochs=1000)

    assert run.returned == [None, None]
    assert own_steps(run).groupby("rank").size().tolist() == [12, 12]


@pytest.mark.ran(
    "recordings that ranks carry back",
    "`horovod.run` with Open MPI 4.1.8",
    "one host",
)
def test_ranks_by_mpi_that_do_not_see_the_run_directory_carry_their_files_back(
    tmp_path, monkeypatch
):
    # As on another host: nothing there says that this is the folder of the run.
    monkeypatch.setattr(function_job, "_write_mark", lambda path, mark: None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    runner = FunctionRunner(np=2, controller="mpi", output=tmp_path / "r")
    run = runner.run(train, epochs=2)

    assert [one["rank"] for one in run.returned] == [0, 1]
    assert len(own_steps(run)) == 2 * (2 * STEPS - 5)
    assert (run.folder / "passes" / "02-np2-trace-r1" / "timeline" / "main.json").is_file()
    assert len(run.analyze().table("collectives"))
    # Nothing of the function stays behind.
    assert not list((tmp_path / "tmp").rglob("*pickle*"))


@pytest.mark.ran(
    "recordings that ranks carry back",
    "`horovod.run` with Gloo",
    "two network namespaces of one host, the second with other files",
)
@pytest.mark.root
def test_recordings_come_back_from_a_host_that_shares_no_files(tmp_path):
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    for folder in (runs, elsewhere, tmp_path / "hosts"):
        folder.mkdir()
    code = NOTEBOOK.replace("FOLDER", f"{str(runs / 'r')!r}, hosts=HOSTS")
    with network_hosts(tmp_path / "hosts") as hosts:
        hosts.hide(hosts.names[1], runs, behind=elsewhere)
        *python, _, _ = hosts.hvdprof_command()
        code = code.replace("HOSTS", repr(hosts.argument))
        ended = subprocess.run([*python, "-c", code], capture_output=True, text=True, timeout=600)

    assert ended.returncode == 0, ended.stderr
    read = load_run(runs / "r")
    assert {host["hostname"] for host in read.manifest.hosts} == set(hosts.names)
    counted = read.steps.groupby(["pass_id", "rank"], observed=True).size()
    assert counted.tolist() == [40, 40]
    assert not list(elsewhere.iterdir())


@pytest.fixture
def hosts(tmp_path):
    (tmp_path / "hosts").mkdir()
    with network_hosts(tmp_path / "hosts") as made:
        yield made


def on_hosts(hosts, folder, epochs=1):
    """The command that runs the notebook on hosts, on the first of them."""
    code = NOTEBOOK.replace("FOLDER", f"{str(folder)!r}, hosts={hosts.argument!r}")
    code = code.replace("epochs=1)", f"epochs={epochs})")
    *python, _, _ = hosts.hvdprof_command()
    return [*python, "-c", code]


@pytest.mark.root
def test_hosts_of_a_function_are_asked_before_anything_starts(hosts, tmp_path):
    hosts.unreachable(hosts.names[1])
    command = on_hosts(hosts, tmp_path / "r")
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)

    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-2:]
    message = f"EnvironmentNotReadyError: {hosts.names[1]} cannot be reached: ssh: connect to host"
    assert message in " ".join(last)
    assert not (tmp_path / "r" / "passes").exists()


@pytest.mark.ran(
    "functions on a host that vanishes",
    "`horovod.run` with Gloo",
    "two network namespaces of one host",
)
@pytest.mark.root
@pytest.mark.waits
def test_a_host_of_a_function_that_vanishes_is_named(hosts, tmp_path):
    command = on_hosts(hosts, tmp_path / "r", epochs=10**6)
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        wait_for(lambda: pids_in_step(tmp_path / "r", step=60) or running.poll() is not None)
        hosts.cut(hosts.names[1])
        _, errors = running.communicate(timeout=300)
    finally:
        running.kill()
        running.communicate()

    assert f"host {hosts.names[1]}, which ran rank 1, has vanished (no answer for" in errors
    assert hosts.processes() == []
    assert "samples/s" in analyze_run(load_run(tmp_path / "r")).verdict.sentence


def test_an_exception_of_a_rank_is_reported_and_its_recording_remains(tmp_path):
    runner = FunctionRunner(np=2, controller="gloo", trace=False, output=tmp_path / "r")

    with pytest.raises(
        SweepIncompleteError, match="rank 1 raised RuntimeError: on purpose"
    ) as seen:
        runner.run(train, epochs=9, fail_at=60)
    assert seen.value.hint.endswith(f"hvdprof analyze {tmp_path / 'r'}")
    assert seen.value.__notes__ == [seen.value.hint]
    analysis = analyze_run(load_run(tmp_path / "r"))
    assert "samples/s" in analysis.verdict.sentence
    with pytest.raises(UsageError, match="is of a function"):
        read_for_resuming(tmp_path / "r")


def test_a_rank_that_is_killed_is_named(tmp_path):
    runner = FunctionRunner(np=2, controller="gloo", trace=False, output=tmp_path / "r")

    with pytest.raises(SweepIncompleteError, match="rank 1 was ended by SIGKILL"):
        runner.run(train, epochs=9, die_at=8)


def test_ctrl_c_ends_the_ranks_and_keeps_what_was_measured(tmp_path):
    code = NOTEBOOK.replace("FOLDER", repr(str(tmp_path / "r"))).replace(
        "epochs=1)", "epochs=10**6)"
    )
    notebook = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: pids_in_step(tmp_path / "r", step=1) or notebook.poll() is not None)
        notebook.send_signal(signal.SIGINT)
        _, errors = notebook.communicate(timeout=300)
    finally:
        notebook.kill()
        notebook.communicate()

    assert "InterruptedRunError: Ended by SIGINT." in errors
    assert f"hvdprof analyze {tmp_path / 'r'}" in errors
    assert Manifest.read(tmp_path / "r").status == Status.INTERRUPTED
    recording = tmp_path / "r" / "passes" / "01-np2-throughput-r1" / "recorder" / "rank-1.jsonl"
    before = recording.stat().st_size
    time.sleep(1)
    assert recording.stat().st_size == before
