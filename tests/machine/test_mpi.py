import os
import stat
from pathlib import Path

import pytest

from hvdprof.machine.mpi import (
    Mpi,
    find_mpi,
    find_mpicxx,
    mpi_library_dir,
    parse_mpi,
)
from tests.builders.survey import make_mpi

OPEN_MPI_4 = "mpirun (Open MPI) 4.1.8\n\nReport bugs to http://www.open-mpi.org/community/help/\n"
OPEN_MPI_5 = "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n"
OPEN_RTE = "mpirun (OpenRTE) 2.1.1\n"
HYDRA = """HYDRA build details:
    Version:                                 4.3.2
    Release Date:                            Tue Aug 26 2025
    CC:                              gcc
    Configure options:                       '--disable-option-checking' '--prefix=/opt/x'
    Process Manager:                         hydra
"""
INTEL = """Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005 (id: 74c4a23)
Copyright 2003-2023, Intel Corporation.
"""


@pytest.mark.parametrize(
    ("banner", "flavour", "version", "works", "binding_args"),
    [
        (OPEN_MPI_4, "openmpi", "4.1.8", True, ""),
        (OPEN_MPI_5, "openmpi", "5.0.11", True, "--bind-to none --map-by slot"),
        (OPEN_RTE, "openmpi", "2.1.1", True, ""),
        (HYDRA, "mpich", "4.3.2", False, ""),
        (INTEL, "intel", "2021.11", True, ""),
        ("something else 1.2\n", "unknown", "", False, ""),
    ],
)
def test_banner_decides_flavour_and_what_horovodrun_can_do(
    banner: str, flavour: str, version: str, works: bool, binding_args: str
) -> None:
    mpi = parse_mpi(banner, "/opt/x/bin/mpirun", None)
    assert (mpi.flavour, mpi.version) == (flavour, version)
    assert (mpi.horovodrun_works, mpi.binding_args) == (works, binding_args)


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_mpirun_beside_the_interpreter_comes_before_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "venv/bin/mpirun", "echo 'mpirun (Open MPI) 4.1.8'")
    write_program(tmp_path / "other/mpirun", "echo 'mpirun (Open MPI) 5.0.11'")
    (tmp_path / "venv/lib").mkdir()
    (tmp_path / "venv/lib/libmpi.so.40").touch()
    monkeypatch.setenv("PATH", f"{tmp_path / 'other'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    mpi = find_mpi(str(tmp_path / "venv/bin/python"))
    assert mpi is not None
    assert mpi.version == "4.1.8"
    assert mpi.library_dir == str(tmp_path / "venv/lib")
    elsewhere = find_mpi(str(tmp_path / "no/bin/python"))
    assert elsewhere is not None
    assert elsewhere.version == "5.0.11"
    assert elsewhere.library_dir is None


def test_no_launcher_or_a_broken_one_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert find_mpi(str(tmp_path / "bin/python")) is None
    assert find_mpicxx(str(tmp_path / "bin/python")) is None
    write_program(tmp_path / "bin/mpirun", "exit 3")
    assert find_mpi(str(tmp_path / "bin/python")) is None


def test_library_dir_is_the_launchers_own_prefix(tmp_path: Path) -> None:
    mpirun = tmp_path / "bin/mpirun"
    assert mpi_library_dir(str(mpirun)) is None
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64/libmpi.so").touch()
    assert mpi_library_dir(str(mpirun)) == str(tmp_path / "lib64")


def test_the_prefix_is_that_behind_links(tmp_path: Path) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/lib").mkdir()
    (tmp_path / "venv/lib/libmpi.so").touch()
    (tmp_path / "link").symlink_to(tmp_path / "venv")
    found = mpi_library_dir(str(tmp_path / "link/bin/mpirun"))
    assert found == str(tmp_path / "venv/lib")


def test_environment_puts_its_own_libraries_first_and_once(with_ssh: str) -> None:
    mpi = make_mpi(library_dir="/venv/lib")
    variables = {"LD_LIBRARY_PATH": "/venv/lib", "OPAL_PREFIX": "/venv"}
    assert mpi.environment({"PATH": with_ssh}) == variables
    inherited = {"LD_LIBRARY_PATH": "/cuda/lib:/venv/lib:"}
    assert mpi.environment(inherited)["LD_LIBRARY_PATH"] == "/venv/lib:/cuda/lib"


def test_environment_leaves_the_systems_mpi_alone(with_ssh: str) -> None:
    inherited = {"LD_LIBRARY_PATH": "/x", "PATH": with_ssh}
    assert make_mpi(library_dir=None).environment(inherited) == {}
    assert "OPAL_PREFIX" not in make_mpi(flavour="mpich", library_dir="/venv/lib").environment({})


@pytest.fixture
def with_ssh(tmp_path: Path) -> str:
    """A PATH with a remote shell."""
    write_program(tmp_path / "bin/ssh", "exit 1")
    return str(tmp_path / "bin")


def test_open_mpi_starts_ranks_of_this_host_without_ssh(tmp_path: Path, with_ssh: str) -> None:
    agent = {"OMPI_MCA_plm_rsh_agent": "false"}
    without = {"PATH": str(tmp_path / "empty")}
    assert make_mpi(library_dir=None).environment(without) == agent
    assert make_mpi(library_dir=None).environment({"PATH": with_ssh}) == {}
    named = without | {"OMPI_MCA_plm_rsh_agent": "/opt/kubexec.sh"}
    assert make_mpi(library_dir=None).environment(named) == {}
    assert make_mpi(flavour="mpich", library_dir=None).environment(without) == {}


@pytest.mark.parametrize(
    ("flavour", "library", "starts"),
    [
        ("openmpi", "Open MPI v4.1.8", True),
        ("openmpi", "MPICH Version: 4.3.2", False),
        ("mpich", "MPICH Version: 4.3.2", True),
        ("mpich", "Open MPI v5.0.11", False),
        ("mpich", "Intel(R) MPI Library 2021.11 for Linux* OS", True),
        ("intel", "MPICH Version: 4.3.2", True),
        ("openmpi", "", True),
        ("unknown", "MPICH Version: 4.3.2", True),
    ],
)
def test_a_launcher_starts_ranks_of_its_own_kind(flavour: str, library: str, starts: bool) -> None:
    assert make_mpi(flavour=flavour).starts(library) is starts


def test_title_names_flavour_and_version() -> None:
    assert make_mpi().title == "Open MPI 4.1.8"
    assert Mpi("unknown", "", "/x", None, False, "").title == "MPI"
