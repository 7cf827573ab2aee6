import sys
from pathlib import Path

import pytest

from hvdprof.machine.install import verify
from hvdprof.machine.install.horovod_features import require_horovod
from hvdprof.machine.install.verify import mpi_try_command, try_horovod
from hvdprof.machine.mpi import find_mpi
from tests.builders.processes import is_running
from tests.builders.running_command import wait_for
from tests.builders.survey import make_build, make_mpi


@pytest.mark.horovod
def test_the_real_one_works_in_every_way_it_was_built_for() -> None:
    build, mpi = require_horovod(sys.executable), find_mpi()
    trials = try_horovod(build, mpi)
    assert [trial.reason for trial in trials if not trial.worked] == []
    assert len(trials) == 1 + (build.mpi and mpi is not None) + build.gloo


def test_launcher_command_by_flavour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    root = mpi_try_command(make_mpi())
    assert root == ["/usr/bin/mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "--allow-run-as-root" not in mpi_try_command(make_mpi())
    assert mpi_try_command(make_mpi(flavour="mpich"))[1:] == ["-n", "2"]


def fake_python(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_failing_start_reports_its_error(tmp_path: Path) -> None:
    text = "echo '-----'; echo 'loading'; echo 'ImportError: libmpi.so.40' >&2; exit 7"
    python = fake_python(tmp_path / "python", text)
    trials = try_horovod(make_build(mpi=False, gloo=False), None, python)
    assert [trial.worked for trial in trials] == [False]
    assert trials[0].reason == "exit code 7: ImportError: libmpi.so.40"


def test_a_rank_that_is_alone_is_noticed(tmp_path: Path) -> None:
    # Every rank a job of its own, as under a launcher of another MPI: it ends with code 0.
    python = fake_python(tmp_path / "python", "echo 'size 1, sum 1.0'")
    launcher = fake_python(tmp_path / "mpirun", 'shift 4; shift; exec "$@"')
    mpi = make_mpi(mpirun=launcher)
    trials = try_horovod(make_build(gloo=False), mpi, python)
    assert [trial.worked for trial in trials] == [False, False]


def test_gloo_is_not_started_where_it_would_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "hostname_resolves", lambda: False)
    python = fake_python(tmp_path / "python", "echo hvdprof-allreduce-right")
    trials = try_horovod(make_build(mpi=False), None, python)
    assert [trial.worked for trial in trials] == [True, False]
    assert "does not resolve" in trials[1].reason


def test_a_missing_launcher_and_a_hang_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_TIMEOUT_S", 0.3)
    monkeypatch.setattr(verify, "hostname_resolves", lambda: True)
    python = fake_python(tmp_path / "python", "exec sleep 30")
    trials = try_horovod(make_build(mpi=False), None, python)
    assert trials[0].reason == "no end within 0.3 s"
    assert "No such file" in trials[1].reason


@pytest.mark.slow
def test_a_launcher_that_hangs_is_asked_to_take_its_ranks_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_TIMEOUT_S", 3.0)
    rank = tmp_path / "rank"
    launcher = fake_python(
        tmp_path / "mpirun",
        f"trap 'kill $rank; exit 1' TERM\nsleep 300 & rank=$!\necho $rank > {rank}\nwait",
    )
    python = fake_python(tmp_path / "python", "echo hvdprof-allreduce-right")
    trials = try_horovod(make_build(gloo=False), make_mpi(mpirun=launcher), python)
    assert trials[1].reason == "no end within 3.0 s"
    # The launcher has signalled its rank, and does not wait for it.
    wait_for(lambda: not is_running(int(rank.read_text())), seconds=10)
