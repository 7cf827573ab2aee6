import shutil
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine.install import gpu_toolkit
from hvdprof.machine.install.gpu_toolkit import (
    compute_capabilities,
    find_gpu_toolkit,
    gpu_topology,
)
from hvdprof.machine.install.torch_install import TorchInstall


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def touch_toolkit(folder: Path) -> Path:
    touch(folder / "include/cuda_runtime.h")
    return touch(folder / "bin/nvcc")


def cuda_torch(site_packages: Path) -> TorchInstall:
    return TorchInstall("2.13.0+cu130", "13.0", site_packages / "torch")


def test_torchs_own_nccl_is_preferred_and_gets_the_linkers_name(tmp_path: Path) -> None:
    nvcc = touch_toolkit(tmp_path / "cuda")
    library = touch(tmp_path / "site/nvidia/nccl/lib/libnccl.so.2")
    touch(tmp_path / "site/nvidia/nccl/include/nccl.h")
    touch(tmp_path / "cuda/include/nccl.h")
    touch(tmp_path / "cuda/lib64/libnccl.so")
    environment = {"CUDA_HOME": str(tmp_path / "cuda"), "PATH": ""}
    toolkit = find_gpu_toolkit(cuda_torch(tmp_path / "site"), environment)
    assert toolkit.cuda_home == nvcc.parent.parent
    assert toolkit.nccl_library == library

    folder = tmp_path / "cache/nccl"
    variables = toolkit.environment(folder, ["9.0", "8.0", "9.0"])
    assert variables["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert variables["HOROVOD_BUILD_CUDA_CC_LIST"] == "80,90"
    assert variables["HOROVOD_NCCL_LIB"] == str(folder)
    assert (folder / "libnccl.so").resolve() == library
    assert "HOROVOD_BUILD_CUDA_CC_LIST" not in toolkit.environment(folder, [])


def test_named_folders_come_first(tmp_path: Path) -> None:
    touch_toolkit(tmp_path / "named")
    touch_toolkit(tmp_path / "other")
    touch(tmp_path / "nccl/include/nccl.h")
    touch(tmp_path / "nccl/lib/libnccl.so")
    touch(tmp_path / "site/nvidia/nccl/include/nccl.h")
    touch(tmp_path / "site/nvidia/nccl/lib/libnccl.so.2")
    environment = {
        "HOROVOD_CUDA_HOME": str(tmp_path / "named"),
        "CUDA_HOME": str(tmp_path / "other"),
        "HOROVOD_NCCL_HOME": str(tmp_path / "nccl"),
    }
    toolkit = find_gpu_toolkit(cuda_torch(tmp_path / "site"), environment)
    assert toolkit.cuda_home == tmp_path / "named"
    assert toolkit.nccl_include == tmp_path / "nccl/include"


def test_nvcc_in_path_gives_the_folder_of_the_toolkit(tmp_path: Path) -> None:
    nvcc = touch_toolkit(tmp_path / "cuda")
    nvcc.chmod(0o755)
    touch(tmp_path / "site/nvidia/nccl/include/nccl.h")
    touch(tmp_path / "site/nvidia/nccl/lib/libnccl.so.2")
    toolkit = find_gpu_toolkit(cuda_torch(tmp_path / "site"), {"PATH": str(nvcc.parent)})
    assert toolkit.cuda_home == tmp_path / "cuda"


def test_a_wrapper_of_nvcc_is_not_a_toolkit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path / "local/bin/nvcc").chmod(0o755)
    touch(tmp_path / "real/bin/nvcc")
    touch(tmp_path / "real/targets/x86_64-linux/include/cuda_runtime.h")
    touch(tmp_path / "site/nvidia/nccl/include/nccl.h")
    touch(tmp_path / "site/nvidia/nccl/lib/libnccl.so.2")
    monkeypatch.setattr(gpu_toolkit, "USUAL_CUDA_HOME", tmp_path / "real")
    environment = {"PATH": str(tmp_path / "local/bin")}
    toolkit = find_gpu_toolkit(cuda_torch(tmp_path / "site"), environment)
    assert toolkit.cuda_home == tmp_path / "real"


def test_a_cpu_torch_cannot_have_a_gpu_horovod(tmp_path: Path) -> None:
    torch = TorchInstall("2.13.0+cpu", None, tmp_path / "torch")
    with pytest.raises(EnvironmentNotReadyError, match="CPU build"):
        find_gpu_toolkit(torch, {})


def test_everything_that_is_missing_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_toolkit, "USUAL_CUDA_HOME", tmp_path / "no-cuda")
    monkeypatch.setattr(gpu_toolkit, "SYSTEM_PREFIX", tmp_path / "no-usr")
    with pytest.raises(EnvironmentNotReadyError) as caught:
        find_gpu_toolkit(cuda_torch(tmp_path / "site"), {"PATH": ""})
    assert "CUDA 13.0 toolkit" in caught.value.message
    assert "NCCL" in caught.value.message
    assert "HOROVOD_CUDA_HOME" in caught.value.hint


def test_nvidia_smi_is_asked_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        '#!/bin/sh\ncase "$1" in topo) printf "\\tGPU0\\tGPU1\\nGPU0\\tX\\tNV12\\n";; '
        '*) printf "9.0\\n9.0\\n";; esac\n',
        encoding="utf-8",
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert compute_capabilities() == ["9.0", "9.0"]
    assert gpu_topology() == "\tGPU0\tGPU1\nGPU0\tX\tNV12\n"
    tool.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n", encoding="utf-8")
    assert compute_capabilities() == []
    assert gpu_topology() is None


def test_no_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    assert compute_capabilities() == []
    assert gpu_topology() is None
