"""CUDA and NCCL as a GPU build of Horovod needs them, and what nvidia-smi reports of the GPUs."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine.install.torch_install import TorchInstall

USUAL_CUDA_HOME = Path("/usr/local/cuda")
SYSTEM_PREFIX = Path("/usr")


@dataclass(frozen=True, slots=True)
class GpuToolkit:
    """Where a GPU build finds things.

    ``cuda_home`` holds ``bin/nvcc``; ``nccl_include`` holds ``nccl.h``; ``nccl_library`` is the
    shared library itself, whose name may carry a version (``libnccl.so.2``).
    """

    cuda_home: Path
    nccl_include: Path
    nccl_library: Path

    def environment(self, folder: Path, compute_capabilities: list[str]) -> dict[str, str]:
        """Variables for Horovod's CMake files.

        Args:
            folder: A folder of the user. It gets the name ``libnccl.so``, which the linker asks
                for and which torch's NCCL package does not have. The built library keeps the
                folder in its run path, so it must not be one where others may write.
            compute_capabilities: Those of this machine's GPUs (``'9.0'``); empty: Horovod's list.
        """
        link = folder / "libnccl.so"
        folder.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(self.nccl_library)
        variables = {
            "HOROVOD_GPU_OPERATIONS": "NCCL",
            "HOROVOD_CUDA_HOME": str(self.cuda_home),
            "CUDA_HOME": str(self.cuda_home),
            "HOROVOD_NCCL_INCLUDE": str(self.nccl_include),
            "HOROVOD_NCCL_LIB": str(folder),
            "HOROVOD_NCCL_LINK": "SHARED",
        }
        if compute_capabilities:
            # Newer nvcc refuse the oldest architectures of Horovod's own list.
            variables["HOROVOD_BUILD_CUDA_CC_LIST"] = ",".join(
                sorted({text.replace(".", "") for text in compute_capabilities})
            )
        return variables


def find_gpu_toolkit(torch: TorchInstall, environment: Mapping[str, str]) -> GpuToolkit:
    """CUDA and NCCL for a GPU build: torch's own NCCL first, so that a process loads only one.

    Raises:
        EnvironmentNotReadyError: torch has no CUDA, or the toolkit or NCCL is not there; the
            message names every missing thing.
    """
    if torch.cuda is None:
        raise EnvironmentNotReadyError(
            f"torch {torch.version} is a CPU build: Horovod cannot use GPUs with it.",
            hint="Install a torch with CUDA, or omit --gpu.",
        )
    cuda_home = _cuda_home(environment)
    nccl = _nccl(torch, environment, cuda_home)
    missing = []
    if cuda_home is None:
        missing.append(
            f"the CUDA {torch.cuda} toolkit (bin/nvcc and cuda_runtime.h; looked at "
            "HOROVOD_CUDA_HOME, CUDA_HOME, PATH and /usr/local/cuda)"
        )
    if nccl is None:
        missing.append(
            "NCCL (nccl.h with libnccl.so; looked at HOROVOD_NCCL_HOME, torch's NCCL package, the "
            "CUDA toolkit and /usr)"
        )
    if cuda_home is None or nccl is None:
        raise EnvironmentNotReadyError(
            f"A GPU build of Horovod needs {' and '.join(missing)}.",
            hint="Install what is missing, or name its folder: HOROVOD_CUDA_HOME=..., "
            "HOROVOD_NCCL_HOME=...",
        )
    return GpuToolkit(cuda_home, *nccl)


def compute_capabilities() -> list[str]:
    """The compute capability of every GPU here, ``['9.0', '9.0']``; empty without a GPU."""
    answer = _nvidia_smi("--query-gpu=compute_cap", "--format=csv,noheader")
    return [line.strip() for line in answer.splitlines() if line.strip()] if answer else []


def gpu_topology() -> str | None:
    """What ``nvidia-smi topo -m`` prints, whole; ``None`` without the tool or without a GPU."""
    return _nvidia_smi("topo", "-m")


def _nvidia_smi(*arguments: str) -> str | None:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        answer = subprocess.run(
            [tool, *arguments], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout


def _cuda_home(environment: Mapping[str, str]) -> Path | None:
    named = [environment.get(name) for name in ("HOROVOD_CUDA_HOME", "CUDA_HOME", "CUDA_PATH")]
    nvcc = shutil.which("nvcc", path=environment.get("PATH"))
    places = [Path(name) for name in named if name]
    places += [Path(nvcc).resolve().parent.parent] if nvcc else []
    places.append(USUAL_CUDA_HOME)
    return next((place for place in places if _is_cuda_home(place)), None)


def _is_cuda_home(place: Path) -> bool:
    # An nvcc alone is not enough: in /usr/local/bin it may be a script that starts another one.
    headers = (
        place / "include" / "cuda_runtime.h",
        *place.glob("targets/*/include/cuda_runtime.h"),
    )
    return (place / "bin" / "nvcc").is_file() and any(header.is_file() for header in headers)


def _nccl(
    torch: TorchInstall, environment: Mapping[str, str], cuda_home: Path | None
) -> tuple[Path, Path] | None:
    places = []
    if environment.get("HOROVOD_NCCL_HOME"):
        places.append(Path(environment["HOROVOD_NCCL_HOME"]))
    places.append(torch.folder.parent / "nvidia" / "nccl")
    if cuda_home is not None:
        places.append(cuda_home)
    places.append(SYSTEM_PREFIX)
    for place in places:
        libraries = [
            library
            for folder in ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")
            for library in sorted((place / folder).glob("libnccl.so*"))
        ]
        if (place / "include" / "nccl.h").is_file() and libraries:
            return place / "include", libraries[0]
    return None
