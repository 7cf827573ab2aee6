import importlib.metadata
import os
import shutil
import sysconfig
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine.install import build_tools
from hvdprof.machine.install.build_tools import (
    available_memory_bytes,
    check_python_packages,
    default_jobs,
    missing_tools,
    provide_tools,
)
from tests.builders.places import ROOT


def put_program(folder: Path, name: str, text: str = "exit 0") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.fixture
def headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "Python.h").touch()
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(folder)})
    monkeypatch.delenv("CXX", raising=False)
    return folder


def test_all_there(tmp_path: Path, headers: Path) -> None:
    put_program(tmp_path / "bin", "g++")
    put_program(tmp_path / "bin", "make")
    assert missing_tools(str(tmp_path / "bin")) == []
    assert provide_tools(forbidden_run, str(tmp_path / "bin")) == []


def test_each_missing_tool_has_its_debian_package(tmp_path: Path, headers: Path) -> None:
    (headers / "Python.h").unlink()
    packages = [tool.debian_package for tool in missing_tools(str(tmp_path))]
    assert packages == ["g++", "make", "python3-dev"]


def test_a_compiler_named_by_the_environment_counts(
    tmp_path: Path, headers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_program(tmp_path / "bin", "make")
    put_program(tmp_path / "bin", "clang++")
    monkeypatch.setenv("CXX", "clang++ -O1")
    assert missing_tools(str(tmp_path / "bin")) == []


def forbidden_run(command: Sequence[str]) -> int:
    raise AssertionError(f"{command} must not be run")


def become(user: int, monkeypatch: pytest.MonkeyPatch, *, debian: bool = True) -> None:
    real: Callable[..., str | None] = shutil.which

    def which(name: str, path: str | None = None) -> str | None:
        if name == "apt-get":
            return "/usr/bin/apt-get" if debian else None
        return real(name, path=path)

    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(shutil, "which", which)


@pytest.mark.parametrize(("user", "debian"), [(1000, True), (0, False)])
def test_without_root_or_apt_the_packages_are_named(
    user: int,
    debian: bool,
    tmp_path: Path,
    headers: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    become(user, monkeypatch, debian=debian)
    with pytest.raises(EnvironmentNotReadyError) as caught:
        provide_tools(forbidden_run, str(tmp_path))
    assert "C++ compiler and make missing" in caught.value.message
    assert "apt-get install -y --no-install-recommends g++ make" in caught.value.hint


def test_root_on_debian_installs_and_updates_the_lists_when_needed(
    tmp_path: Path, headers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(0, monkeypatch)
    commands: list[list[str]] = []

    def run(command: Sequence[str]) -> int:
        commands.append(list(command))
        if "update" in command:
            return 0
        if len(commands) == 1:
            return 100
        put_program(tmp_path / "bin", "g++")
        put_program(tmp_path / "bin", "make")
        return 0

    assert provide_tools(run, str(tmp_path / "bin")) == ["g++", "make"]
    assert [command[1] for command in commands] == ["install", "update", "install"]


@pytest.mark.parametrize("codes", [[1, 1], [1, 0, 1], [0]])
def test_an_installation_that_does_not_help_is_reported(
    codes: list[int], tmp_path: Path, headers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(0, monkeypatch)
    left = iter(codes)
    with pytest.raises(EnvironmentNotReadyError, match="missing"):
        provide_tools(lambda command: next(left), str(tmp_path))
    assert next(left, None) is None


def packages_of(versions: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_python_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    packages_of(dict.fromkeys(build_tools._NEEDED_PACKAGES, "1.0"), monkeypatch)
    check_python_packages()

    packages_of({"psutil": "7.0", "cffi": "2.0"}, monkeypatch)
    with pytest.raises(EnvironmentNotReadyError, match=r"packaging, cloudpickle") as absent:
        check_python_packages()
    assert absent.value.hint == "python -m pip install packaging cloudpickle pyyaml"


@pytest.mark.parametrize(
    ("cores", "memory", "jobs"),
    [(8, 64_000_000_000, 8), (8, 4_000_000_000, 2), (2, 100, 1), (4, None, 4), (0, None, 1)],
)
def test_jobs_are_bounded_by_cores_and_memory(cores: int, memory: int | None, jobs: int) -> None:
    assert default_jobs(cores, memory) == jobs


def test_available_memory_is_that_of_this_machine() -> None:
    memory = available_memory_bytes()
    assert memory is not None
    assert 10_000_000 < memory < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_every_needed_package_is_in_the_extra() -> None:
    requirements = importlib.metadata.requires("hvdprof") or []
    in_extra = " ".join(line for line in requirements if "bench" in line)
    assert all(name in in_extra for name in build_tools._NEEDED_PACKAGES)


def test_no_extra_holds_what_the_build_alone_needs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked_for = " ".join(sum(extras["optional-dependencies"].values(), extras["dependencies"]))
    assert "torch" in asked_for
    assert not any(name in asked_for for name in ("cmake", "setuptools", "wheel"))
