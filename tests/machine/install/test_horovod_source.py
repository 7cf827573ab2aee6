"""Horovod's source with our patch: on archives made here, and on the real one where pip gets it."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hvdprof.errors import BuildFailedError
from hvdprof.machine.install import horovod_source
from hvdprof.machine.install.horovod_source import (
    PATCH_FILE,
    apply_patch,
    download_command,
    unpack_patched,
)

DIFF = """--- a/horovod/one.py
+++ b/horovod/one.py
@@ -1,3 +1,4 @@
 first
-second
+other
+more
 third
@@ -6 +7 @@ a place
-sixth
+last
--- a/horovod/two.py
+++ b/horovod/two.py
@@ -2 +2 @@
-b
+c
"""
ONE = "first\nsecond\nthird\nfourth\nfifth\nsixth\n"


def make_source(root: Path, *, one: str = ONE) -> Path:
    (root / "horovod").mkdir(parents=True)
    (root / "horovod" / "one.py").write_text(one)
    (root / "horovod" / "two.py").write_text("a\nb\n")
    return root


def test_every_hunk_of_every_file_is_applied(tmp_path: Path) -> None:
    root = make_source(tmp_path)
    apply_patch(DIFF, root)
    changed = "first\nother\nmore\nthird\nfourth\nfifth\nlast\n"
    assert (root / "horovod" / "one.py").read_text() == changed
    assert (root / "horovod" / "two.py").read_text() == "a\nc\n"


def test_another_source_is_refused_with_the_place(tmp_path: Path) -> None:
    root = make_source(tmp_path, one=ONE.replace("second", "2nd"))
    with pytest.raises(ValueError, match=r"line 1 of horovod/one\.py"):
        apply_patch(DIFF, root)


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_an_archive_that_is_missing_or_damaged(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "horovod-0.28.1.tar.gz").write_bytes(content)
    with pytest.raises(BuildFailedError, match="could not be prepared"):
        unpack_patched(tmp_path)


@pytest.mark.parametrize("has_filters", [True, False])
def test_what_is_unpacked_is_patched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_filters: bool
) -> None:
    if not has_filters:  # Python 3.11.2
        whole = tarfile.TarFile.extractall
        monkeypatch.delattr(tarfile, "data_filter")
        monkeypatch.setattr(
            tarfile.TarFile, "extractall", lambda self, path: whole(self, path, filter="tar")
        )
    (tmp_path / "own.patch").write_text(DIFF)
    monkeypatch.setattr(horovod_source, "PATCH_FILE", tmp_path / "own.patch")
    with tarfile.open(tmp_path / "horovod-0.28.1.tar.gz", "w:gz") as archive:
        archive.add(make_source(tmp_path / "original"), "horovod-0.28.1")
    root = unpack_patched(tmp_path)
    assert (root / "horovod" / "two.py").read_text() == "a\nc\n"


@pytest.fixture(scope="module")
def real_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    command = download_command(sys.executable, folder)
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return unpack_patched(folder)


@pytest.mark.install
def test_the_patch_fits_the_real_source(real_source: Path) -> None:
    assert "distutils" not in (real_source / "horovod" / "runner" / "js_run.py").read_text()
    changed = PATCH_FILE.read_text().count("--- a/")
    for path in real_source.glob("horovod/**/*.py"):
        compile(path.read_text(), str(path), "exec")
    assert changed == 16


# torch of CUDA, as FindPytorch.cmake asks it: its CUDA_HOME is the folder of any nvcc in PATH.
FAKE_TORCH = """import os, shutil, sys, types
class Extension:
    include_dirs = library_dirs = libraries = ()
    def __init__(self, *_): pass
nvcc = shutil.which("nvcc")
home = os.path.dirname(os.path.dirname(nvcc)) if nvcc else None
__version__, version = "2.13.0+cu130", types.SimpleNamespace(cuda="13.0", hip=None)
torch = types.SimpleNamespace(compiled_with_cxx11_abi=lambda: True)
sys.modules["torch.utils"] = utils = types.ModuleType("torch.utils")
sys.modules["torch.utils.cpp_extension"] = utils.cpp_extension = types.SimpleNamespace(
    CUDA_HOME=home, ROCM_HOME=None, CUDAExtension=Extension, CppExtension=Extension)
"""
CONFIGURE = """cmake_minimum_required(VERSION 3.13)
project(asked CXX)
list(APPEND CMAKE_MODULE_PATH "{modules}")
set(PY_EXE "{python}")
find_package(Pytorch REQUIRED)
message("CUDA of torch: ${{Pytorch_CUDA}}")
"""


@pytest.mark.install
@pytest.mark.parametrize("has_toolkit", [False, True])
@pytest.mark.parametrize("compiles", [False, True])
def test_an_nvcc_without_a_toolkit_makes_no_build_for_gpus(
    tmp_path: Path, real_source: Path, has_toolkit: bool, compiles: bool
) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not installed")
    for name in ("torch.py", "cuda/bin/nvcc", "CMakeLists.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch(0o755)
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    (tmp_path / "cuda/bin/nvcc").write_text("#!/bin/sh\nexit 1\n")
    modules = real_source / "cmake" / "Modules"
    (tmp_path / "CMakeLists.txt").write_text(
        CONFIGURE.format(modules=modules, python=sys.executable)
    )
    if has_toolkit:
        for name in ("include/cuda_runtime.h", "include/cuda.h", "lib64/libcudart.so"):
            (tmp_path / "cuda" / name).parent.mkdir(exist_ok=True)
            (tmp_path / "cuda" / name).write_text("#define CUDA_VERSION 13000\n")
    path = f"{tmp_path / 'cuda/bin'}{os.pathsep}{os.environ['PATH']}"
    # What Horovod's CMake files set where an nvcc works, such as a script that starts a real one.
    found = [f"-DCMAKE_CUDA_COMPILER={tmp_path / 'cuda/bin/nvcc'}"] if compiles else []
    answer = subprocess.run(
        [cmake, "-S", tmp_path, "-B", tmp_path / "build", *found],
        env=os.environ | {"PATH": path, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    assert f"CUDA of torch: {str(has_toolkit).upper()}\n" in answer.stderr
