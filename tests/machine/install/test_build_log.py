# ruff: noqa: E501, RUF001 - the texts of the tools keep their lines and their signs.
import pytest

from hvdprof.machine.install.build_log import advice, first_error, progress, stage

HEAD = """Collecting horovod==0.28.1
  Downloading horovod-0.28.1.tar.gz (3.5 MB)
  Running command python setup.py bdist_wheel
  Running CMake in build/temp.linux-x86_64-cpython-311/RelWithDebInfo:
  -- Could NOT find CCache. Consider installing CCache to speed up compilation.
  -- Could NOT find NVTX (missing: NVTX_INCLUDE_DIR)
"""
TAIL = """  error: subprocess-exited-with-error
  × Building wheel for horovod (pyproject.toml) did not run successfully.
  subprocess.CalledProcessError: Command '['cmake', '--build', '.']' returned non-zero exit status 2.
  ERROR: Failed building wheel for horovod
Failed to build horovod
ERROR: Failed to build one or more wheels
"""

# What the tools print, each with the line that explains it and a word of the advice.
FAILURES = {
    "C++14 with a new torch": (
        """  [ 78%] Building CXX object horovod/torch/CMakeFiles/pytorch.dir/adapter_v2.cc.o
  In file included from /v/torch/include/torch/extension.h:5,
  /v/torch/include/torch/all.h:5:2: error: #error C++17 or later compatible compiler is required to use PyTorch.
      5 | #error C++17 or later compatible compiler is required to use PyTorch.
  /v/torch/include/c10/util/StringUtil.h:65:22: error: 'is_enum_v' is not a member of 'std'
  make[2]: *** [horovod/torch/CMakeFiles/pytorch.dir/build.make:76: x.cc.o] Error 1
""",
        "/v/torch/include/torch/all.h:5:2: error: #error C++17 or later",
        "cmake>=3.21",
    ),
    "a compiler that does not work": (
        """  CMake Error at /v/cmake-3.31/Modules/CMakeTestCXXCompiler.cmake:73 (message):
    The C++ compiler

      "/bin/false"

    is not able to compile a simple test program.

    It fails with the following output:
      gmake[1]: *** [CMakeFiles/cmTC_045d2.dir/build.make:81: x.o] Error 1
""",
        'CMake Error: The C++ compiler "/bin/false" is not able to compile a simple test program.',
        "g++ make",
    ),
    "no compiler": (
        """  CMake Error at CMakeLists.txt:18 (project):
    No CMAKE_CXX_COMPILER could be found.

    Tell CMake where to find the compiler by setting either the environment
""",
        "CMake Error: No CMAKE_CXX_COMPILER could be found.",
        "g++ make",
    ),
    "no make": (
        """  CMake Error: CMake was unable to find a build program corresponding to "Unix Makefiles".  CMAKE_MAKE_PROGRAM is not set.
  CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage
""",
        "CMake Error: CMake was unable to find a build program",
        "make",
    ),
    "no cmake": (
        """  FileNotFoundError: [Errno 2] No such file or directory: 'cmake'
""",
        "FileNotFoundError: [Errno 2] No such file or directory: 'cmake'",
        "cmake>=3.21,<4",
    ),
    "cmake 4": (
        """  CMake Error at third_party/gloo/CMakeLists.txt:1 (cmake_minimum_required):
    Compatibility with CMake < 3.5 has been removed from CMake.

    Update the VERSION argument <min> value.
""",
        "Compatibility with CMake < 3.5 has been removed from CMake.",
        "cmake>=3.21,<4",
    ),
    "setuptools 80": (
        """  Traceback (most recent call last):
    File "<string>", line 20, in <module>
  ModuleNotFoundError: No module named 'pkg_resources'
""",
        "ModuleNotFoundError: No module named 'pkg_resources'",
        "setuptools<80",
    ),
    "no MPI": (
        """  CMake Error at /v/cmake-3.31/Modules/FindPackageHandleStandardArgs.cmake:233 (message):
    Could NOT find MPI (missing: MPI_CXX_FOUND)
  Call Stack (most recent call first):
""",
        "Could NOT find MPI (missing: MPI_CXX_FOUND)",
        "--no-mpi",
    ),
    "no NCCL": (
        """  CMake Error at /v/cmake-3.31/Modules/FindPackageHandleStandardArgs.cmake:233 (message):
    Could NOT find NCCL (missing: NCCL_INCLUDE_DIR NCCL_LIBRARY)
""",
        "Could NOT find NCCL (missing: NCCL_INCLUDE_DIR NCCL_LIBRARY)",
        "HOROVOD_NCCL_HOME",
    ),
    "no CUDA toolkit": (
        """  CMake Error at /v/cmake-3.31/Modules/FindPackageHandleStandardArgs.cmake:233 (message):
    Could NOT find CUDAToolkit (missing: CUDAToolkit_INCLUDE_DIR)
""",
        "Could NOT find CUDAToolkit",
        "HOROVOD_CUDA_HOME",
    ),
    "HIP without its commands": (
        """  CMake Error at horovod/common/ops/rocm/CMakeLists.txt:12 (hip_add_library):
    Unknown CMake command "hip_add_library".
""",
        'CMake Error: Unknown CMake command "hip_add_library".',
        "untried",
    ),
    "RCCL's header in another folder": (
        """  /h/horovod/common/ops/nccl_operations.h:21:10: fatal error: rccl.h: No such file or directory
  compilation terminated.
""",
        "/h/horovod/common/ops/nccl_operations.h:21:10: fatal error: rccl.h",
        "CPATH=/opt/rocm/include/rccl",
    ),
    "no packaging": (
        """  ModuleNotFoundError: No module named 'packaging'
""",
        "ModuleNotFoundError: No module named 'packaging'",
        "pip install packaging",
    ),
    "an architecture that nvcc has dropped": (
        """  nvcc fatal   : Unsupported gpu architecture 'compute_35'
  make[2]: *** [horovod/common/ops/cuda/CMakeFiles/x.dir/cuda_kernels.cu.o] Error 1
""",
        "nvcc fatal   : Unsupported gpu architecture 'compute_35'",
        "HOROVOD_BUILD_CUDA_CC_LIST",
    ),
    "a CPU torch for a GPU build": (
        """  CMake Error at horovod/torch/CMakeLists.txt:22 (message):
    Horovod build with GPU support was requested but this PyTorch installation
    does not support CUDA.
""",
        "CMake Error: Horovod build with GPU support was requested but this PyTorch installation does",
        "CPU build",
    ),
    "a compiler whose headers include less": (
        """  In file included from /h/horovod/common/group_table.cc:16:
  /h/horovod/common/group_table.h:35:47: error: ‘string’ in namespace ‘std’ does not name a type
     35 |   const std::vector<std::string>& GetGroupTensorNames(int32_t group_id) const;
  make[2]: *** [horovod/torch/CMakeFiles/pytorch.dir/build.make:118: x.cc.o] Error 1
""",
        "/h/horovod/common/group_table.h:35:47: error: ‘string’ in namespace ‘std’ does not",
        "CXX=g++-12",
    ),
    "the same for integers, in another locale": (
        """  /h/horovod/common/nvtx_op_range.h:96:36: error: 'int64_t' has not been declared
""",
        "/h/horovod/common/nvtx_op_range.h:96:36: error: 'int64_t' has not been declared",
        "CXX=g++-12",
    ),
    "a compiler that is stricter": (
        """  /h/flatbuffers/stl_emulation.h:549:12: error: assignment of read-only member ‘span<T>::count_’
""",
        "/h/flatbuffers/stl_emulation.h:549:12: error: assignment of read-only member",
        "CXX=g++-12",
    ),
    "out of memory": (
        """  g++: fatal error: Killed signal terminated program cc1plus
  compilation terminated.
  make[2]: *** [horovod/torch/CMakeFiles/pytorch.dir/build.make:104: x.o] Error 1
""",
        "g++: fatal error: Killed signal terminated program cc1plus",
        "--jobs 1",
    ),
    "a full disk": (
        """  /usr/bin/ld: final link failed: No space left on device
  /tmp/ccX.s: Fatal error: can't close x.o: No space left on device
  collect2: error: ld returned 1 exit status
""",
        "/usr/bin/ld: final link failed: No space left on device",
        "TMPDIR",
    ),
    "no Python headers": (
        """  /v/torch/include/torch/csrc/python_headers.h:12:10: fatal error: Python.h: No such file or directory
  compilation terminated.
""",
        "/v/torch/include/torch/csrc/python_headers.h:12:10: fatal error: Python.h",
        "python3-dev",
    ),
    "a system's Python": (
        """error: externally-managed-environment

× This environment is externally managed
""",
        "error: externally-managed-environment",
        "venv",
    ),
    "no network": (
        """ERROR: Could not find a version that satisfies the requirement horovod==0.28.1 (from versions: none)
ERROR: No matching distribution found for horovod==0.28.1
""",
        "ERROR: Could not find a version that satisfies the requirement",
        "PIP_FIND_LINKS",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_the_first_real_error_and_what_to_do(name: str) -> None:
    log, line, word = FAILURES[name]
    text = HEAD + log + TAIL
    assert first_error(text).startswith(line)
    assert word in (advice(text) or "")


def test_an_error_of_unknown_cause_is_reported_without_advice() -> None:
    text = HEAD + "  /src/operations.cc:12:3: error: 'foo' was not declared\n" + TAIL
    assert first_error(text) == "/src/operations.cc:12:3: error: 'foo' was not declared"
    assert advice(text) is None


def test_optional_things_that_cmake_did_not_find_are_no_errors() -> None:
    assert advice(HEAD + "  -- Could NOT find MPI (missing: MPI_CXX_FOUND)\n") is None
    assert "NVTX" not in first_error(HEAD + TAIL)


def test_logs_that_say_nothing() -> None:
    assert first_error("") == "the build printed nothing"
    assert first_error("one\n two\n\n") == "two"


@pytest.mark.parametrize(
    ("line", "done"),
    [
        ("  [  2%] Building CXX object gloo.dir/allgather.cc.o", 0.02),
        ("[ 37%] Building CXX object x.o", 0.37),
        ("  [100%] Linking CXX shared library mpi_lib_v2.so", 1.0),
        ("  #define BOOST_PP_37 [ 37%", None),
        ("a [ 37%] b", None),
        ("Installed 37% of it", None),
    ],
)
def test_progress_is_makes_percentage(line: str, done: float | None) -> None:
    assert progress(line) == done


def test_stages_in_words() -> None:
    stages = [stage(line) for line in HEAD.splitlines()]
    assert [words for words in stages if words] == ["configuring"]
