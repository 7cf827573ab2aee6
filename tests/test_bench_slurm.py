"""The main job under Slurm: a real one of one node, of the test's own."""

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders import ddp_script, user_script
from tests.builders.running_command import wait_for
from tests.builders.slurm import NoSlurmError, SlurmNode, slurm_node

pytestmark = [pytest.mark.horovod, pytest.mark.root, pytest.mark.timeout(900)]

BENCH = (sys.executable, "-m", "hvdprof", "bench", "--launcher", "srun")
RUN = (sys.executable, "-m", "hvdprof", "run", "--launcher", "srun")
SMALL = (
    *("--models", "mnist", "--batch-size", "4", "--num-steps", "12"),
    *("--repeats", "1", "--np", "2"),
)


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmNode]:
    # Paths of sockets are short: not below the folder of a test.
    with tempfile.TemporaryDirectory(prefix="slurm") as folder:
        try:
            with slurm_node(Path(folder)) as node:
                yield node
        except NoSlurmError as error:
            pytest.skip(f"no Slurm here: {error}")


def within_allocation(node: SlurmNode, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["salloc", "--quiet", "-n", "2", *command],
        env=node.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.ran(
    "`hvdprof bench --launcher srun`",
    "Slurm 22.05.8 with PMIx 4.2.2; Open MPI 4.1.8, Gloo",
    "one node, 2 ranks",
)
def test_bench_by_srun(slurm: SlurmNode, tmp_path: Path) -> None:
    done = within_allocation(
        slurm,
        *(*BENCH, *SMALL, "--controller", "gloo"),
        *("--quiet", "--output", str(tmp_path / "run"), "--format", "json"),
    )
    assert done.returncode == 0, done.stderr
    _is_recorded_whole(tmp_path / "run", program=Path(sys.executable).name)


def _is_recorded_whole(folder: Path, program: str) -> None:
    run = load_run(folder)
    assert not analyze_run(run).failed
    assert {Path(record.command[0]).name for record in run.manifest.passes} == {program}
    throughput = run.segments[run.segments["mode"] == "throughput"]
    assert throughput["num_ranks_recorded"].tolist() == [2]
    assert sorted(run.ranks["local_rank"].unique()) == [0, 1]


@pytest.mark.warm
def test_a_job_script_of_a_bench_is_written_submitted_and_runs(
    slurm: SlurmNode, tmp_path: Path
) -> None:
    folder = _runs_as_a_job(slurm, tmp_path, [*BENCH, *SMALL, "--controller", "mpi"], [])
    _is_recorded_whole(folder, program="srun")


@pytest.mark.ran(
    "`hvdprof run --sbatch`, and `bench --sbatch`",
    "Slurm 22.05.8; Gloo, Open MPI 4.1.8",
    "one node, 2 ranks",
)
@pytest.mark.warm
def test_a_job_script_of_a_script_is_written_submitted_and_runs(
    slurm: SlurmNode, tmp_path: Path
) -> None:
    command = [*RUN, "--np", "2", "--no-trace", "--controller", "gloo"]
    script = ["--", "python", user_script.__file__, "--epochs", "1"]
    _runs_as_a_job(slurm, tmp_path, command, script)


def _runs_as_a_job(slurm: SlurmNode, tmp_path: Path, command: list[str], script: list[str]) -> Path:
    folder = tmp_path / "my run"
    own = ("--sbatch", "--name", "my job", "--output", str(folder))
    done = subprocess.run(
        [*command, *own, *script],
        env=slurm.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "Submitted batch job" in done.stderr
    assert "#SBATCH --ntasks=2" in (tmp_path / "my run.sbatch").read_text()
    wait_for(lambda: (folder / "manifest.json").exists() and _has_ended(folder), seconds=300)
    printed = [path.read_text() for path in tmp_path.glob("*.out")]
    assert Manifest.read(folder).status == Status.DONE, printed
    assert Manifest.read(folder).name == "my job"
    return folder


def _has_ended(folder: Path) -> bool:
    return Manifest.read(folder).status in (Status.DONE, Status.FAILED, Status.INTERRUPTED)


@pytest.mark.ran(
    "`hvdprof run --launcher srun` of a [DDP script](run.md#ddp-scripts)",
    "Slurm 22.05.8, torch 2.13 with Gloo",
    "one node, 2 ranks",
)
@pytest.mark.warm
def test_a_ddp_script_that_finds_its_rank_by_itself(slurm: SlurmNode, tmp_path: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    done = within_allocation(
        slurm,
        *(*RUN, "--np", "2", "--no-trace", "--controller", "gloo", "--num-threads", "1"),
        *("--env", f"MASTER_PORT={port}", "--quiet", "--output", str(tmp_path / "run")),
        # Longer than all else in a step, also on a busy machine.
        *("--", "python", ddp_script.__file__, "--fault", "data:rank=1:ms=200", "--steps", "30"),
    )
    assert done.returncode == 0, done.stderr
    analysis = analyze_run(load_run(tmp_path / "run"))
    assert set(analysis.scaling["engine"]) == {"ddp"}
    assert "rank 1, data phase" in analysis.verdict.sentence
    assert sorted(analysis.run.ranks["local_rank"]) == [0, 1]


@pytest.mark.warm
def test_outside_an_allocation_it_says_so(slurm: SlurmNode, tmp_path: Path) -> None:
    done = subprocess.run(
        [*BENCH, *SMALL, "--controller", "gloo", "--output", str(tmp_path / "run")],
        env=slurm.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 5
    assert "not inside a Slurm allocation" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_a_step_that_is_ended_leaves_no_rank_behind(
    slurm: SlurmNode, controller: str, tmp_path: Path
) -> None:
    done = within_allocation(
        slurm,
        *(*RUN, "--np", "2", "--no-trace", "--controller", controller),
        *("--stall-warn", "4", "--stall-kill", "5", "--quiet", "--output", str(tmp_path / "run")),
        *("--", "python", user_script.__file__, "--hang-at", "8"),
    )
    assert done.returncode == 6, done.stderr
    failed = analyze_run(load_run(tmp_path / "run")).failed
    assert failed[0].reason.startswith("ended by --stall-kill: stall at step")
    assert failed[0].rank == 1
    assert processes_of(tmp_path / "run") == []


def processes_of(folder: Path) -> list[int]:
    """Processes whose environment names the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in environment:
            found.append(int(process.name))
    return found
