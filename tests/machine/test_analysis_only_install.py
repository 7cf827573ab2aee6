"""What a user gets who installs hvdprof without extras, on a laptop, to read a run."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.builders.places import RECORDINGS, ROOT

pytestmark = pytest.mark.install


def build(source: Path, kind: str, folder: Path) -> Path:
    """The distribution that the project's own backend builds of a source tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as installers build it that find no wheel: from the unpacked sdist."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return build(next(folder.iterdir()), "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a new environment with hvdprof and nothing it does not need."""
    folder = tmp_path_factory.mktemp("analysis-only")
    # A pip of its own would be unpacked and compiled for this one call.
    made = [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")]
    subprocess.run(made, check=True)
    # The commands below compile the few modules that they import.
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "venv"), "install", "--quiet"]
    options = ("--no-compile", "-c", str(ROOT / "constraints.txt"))
    subprocess.run([*pip, *options, str(wheel)], check=True)
    return folder / "venv/bin"


def run(commands: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # PYTHONPATH could lend it what it does not have itself.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(commands / "hvdprof"), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=commands
    )


def files_of(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert len(names) == len(set(names))
        return {name: archive.read(name) for name in names if ".dist-info/" not in name}


def tracked(folder: str) -> set[str]:
    """The files of a folder of the checkout, without what Python and tools leave there."""
    paths = (ROOT / folder).rglob("*")
    found = {path for path in paths if path.is_file() and "__pycache__" not in path.parts}
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_the_wheel_holds_linked_folders_as_files_and_only_below_hvdprof(wheel: Path) -> None:
    files = files_of(wheel)
    assert {name.split("/")[0] for name in files} == {"hvdprof"}
    for folder in ("dashboards", "bench_models"):
        packed = {name.removeprefix("hvdprof/") for name in files if name.split("/")[1] == folder}
        assert packed == tracked(folder)
    page = "dashboards/assets/hvdprof.css"
    assert files[f"hvdprof/{page}"] == (ROOT / page).read_bytes()


def test_a_checkout_and_its_sdist_give_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    assert files_of(build(ROOT, "wheel", tmp_path)) == files_of(wheel)


def test_the_sdist_holds_no_link_and_each_linked_folder_once(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert not [member.name for member in members if member.issym() or member.islnk()]
    applications = [member.name for member in members if member.name.endswith("dashboards/app.py")]
    assert [name.split("/", 1)[1] for name in applications] == ["hvdprof/dashboards/app.py"]


def test_the_sdist_holds_what_its_tests_read(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        *(".ci/run", "Makefile", "README.md", "constraints.txt", "mkdocs.yml", "pyproject.toml"),
        *("benchmarks/attribution.py", "benchmarks/scripts/fault.py", "docs/generate.py"),
        *("tests/conftest.py", "hvdprof/machine/install/horovod.txt"),
    } <= names


def test_help_lists_every_command(commands: Path) -> None:
    answer = run(commands, "--help")
    assert answer.returncode == 0, answer.stderr
    assert "doctor" in answer.stdout
    assert "analyze" in answer.stdout


def test_core_alone_analyses_a_timeline_as_a_full_installation_does(commands: Path) -> None:
    timeline = RECORDINGS / "04_gloo_straggler_rank1_cache_off.json"
    arguments = ["analyze", str(timeline), "--format", "json"]
    answer = run(commands, *arguments)
    assert answer.returncode == 0, answer.stderr
    full = [sys.executable, "-m", "hvdprof", *arguments]
    assert (
        answer.stdout == subprocess.run(full, stdout=subprocess.PIPE, text=True, check=True).stdout
    )
    (file,) = json.loads(answer.stdout)["files"]
    assert "48.0 ms" in file["verdict"]


def test_a_query_names_the_extra(commands: Path) -> None:
    timeline = RECORDINGS / "04_gloo_straggler_rank1_cache_off.json"
    answer = run(commands, "sql", str(timeline), "SELECT 1")
    assert answer.returncode == 4, answer.stderr
    assert "hvdprof[sql]" in answer.stderr


def test_doctor_names_the_extra(commands: Path) -> None:
    answer = run(commands, "doctor", "--json")
    assert answer.returncode == 5, answer.stderr
    record = json.loads(answer.stdout)
    torch = next(finding for finding in record["findings"] if finding["name"] == "torch")
    assert torch["state"] == "missing"
    assert "hvdprof[bench]" in torch["fix"]


def test_building_horovod_names_the_extra(commands: Path) -> None:
    answer = run(commands, "install-horovod")
    assert answer.returncode == 4
    assert "hvdprof[bench]" in answer.stderr


def test_the_toolchain_file_is_packed(wheel: Path) -> None:
    assert "hvdprof/machine/install/cxx17.toolchain.cmake" in files_of(wheel)
