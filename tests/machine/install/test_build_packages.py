import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine.install.build_packages import (
    BUILD_PIN,
    cmake_version,
    packages_command,
    provide_packages,
    unfit_packages,
)
from tests.builders.places import ROOT
from tests.machine.install.test_build_tools import packages_of, put_program

CMAKE = "printf 'cmake version 3.31.10\\n\\nCMake suite'"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put_program(tmp_path / "bin", "cmake", CMAKE)
    packages_of({"setuptools": "79.0.1", "wheel": "0.48.0"}, monkeypatch)
    return tmp_path / "bin"


def never(command: Sequence[str]) -> int:
    raise AssertionError(f"{command} must not be run")


def test_what_fits_is_used_as_it_is(programs: Path, tmp_path: Path) -> None:
    environment = {"PATH": str(programs), "CC": "gcc"}
    assert provide_packages(never, environment, tmp_path / "none", "python") == environment
    assert cmake_version(str(programs)) == "3.31.10"


@pytest.mark.parametrize(
    ("cmake", "versions", "reasons"),
    [
        (None, {}, ["CMake is missing", "setuptools is missing", "wheel is missing"]),
        ("echo cmake version 3.18.4", {"setuptools": "79"}, ["CMake 3.18.4 is too old", "wheel"]),
        ("echo something", {"setuptools": "79", "wheel": "1"}, ["CMake is missing"]),
        (CMAKE, {"setuptools": "80.1.0", "wheel": "1"}, ["setuptools 80.1.0 is too new"]),
    ],
)
def test_what_does_not_fit_is_named(
    cmake: str | None,
    versions: dict[str, str],
    reasons: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if cmake is not None:
        put_program(tmp_path, "cmake", cmake)
    packages_of(versions, monkeypatch)
    found = unfit_packages(str(tmp_path))
    assert len(found) == len(reasons)
    assert all(one.startswith(reason) for one, reason in zip(found, reasons, strict=True))


def test_what_is_downloaded_comes_before_the_environments_own(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages_of({"setuptools": "82.0.0", "wheel": "0.48.0"}, monkeypatch)
    put_program(programs, "cmake", "echo cmake version 3.18.4")
    folder = tmp_path / "packages"
    commands = []

    def run(command: Sequence[str]) -> int:
        commands.append(command)
        put_program(folder / "cmake" / "data" / "bin", "cmake", CMAKE)
        (folder / "setuptools.py").write_text("brought = True\n", encoding="utf-8")
        return 0

    environment = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": "/mine"}
    provided = provide_packages(run, environment, folder, sys.executable)

    assert commands == [packages_command(sys.executable, folder)]
    assert cmake_version(provided["PATH"]) == "3.31.10"
    assert provided["PYTHONPATH"].split(os.pathsep) == [str(folder), "/mine"]
    script = "import setuptools; print(setuptools.brought)"
    done = subprocess.run(
        [sys.executable, "-c", script], env=provided, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_a_download_that_fails_says_what_to_install(programs: Path, tmp_path: Path) -> None:
    (programs / "cmake").unlink()
    with pytest.raises(EnvironmentNotReadyError, match="CMake is missing") as caught:
        provide_packages(lambda command: 1, {"PATH": str(programs)}, tmp_path, "python")
    assert "cmake>=3.21,<4" in caught.value.hint


def test_pins_are_those_of_the_constraints() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split(" ")[0] for line in BUILD_PIN.read_text().splitlines() if "==" in line]
    assert [pin.split("==")[0] for pin in pins] == ["cmake", "setuptools", "wheel"]
    assert set(pins) <= set(constraints)


@pytest.mark.install
def test_pip_downloads_them_into_a_folder_of_their_own(tmp_path: Path) -> None:
    before = {one.name for one in importlib.metadata.distributions()}
    folder = tmp_path / "packages"

    def run(command: Sequence[str]) -> int:
        return subprocess.run(command, check=False).returncode

    provided = provide_packages(run, {"PATH": "/nowhere"}, folder, sys.executable)

    assert cmake_version(provided["PATH"]) == "3.31.10"
    script = "import setuptools, wheel; print(setuptools.__version__, wheel.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", script], env=provided, capture_output=True, text=True, check=True
    )
    version, place = done.stdout.split()
    assert version == "79.0.1"
    assert Path(place).is_relative_to(folder)
    assert {one.name for one in importlib.metadata.distributions()} == before
