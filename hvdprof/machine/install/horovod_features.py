"""What the installed Horovod can do, asked from a child process: the parent never imports it."""

import contextlib
import functools
import glob
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hvdprof import __version__
from hvdprof.errors import EnvironmentNotReadyError, UnreadableInputError
from hvdprof.machine.install.cache_folder import cache_folder, stamps, write_cached
from hvdprof.machine.mpi import find_mpi
from hvdprof.rundir.json_codec import read_json
from hvdprof.rundir.trusted_file import is_trusted

INSTALL_HINT = "hvdprof install-horovod"

_OF_LOADERS = re.compile(r"PATH$|LD_|DYLD_|PYTHON|OPAL_PREFIX$").match
MOST_CACHED = 16
GPU_DEVICES = ("/dev/nvidia*", "/dev/nvhost*", "/dev/kfd", "/dev/dxg")

_MARK = "hvdprof-horovod-build:"
_QUESTION = f"""
import importlib.util, json, pathlib, sys
if importlib.util.find_spec("horovod") is None:
    print({_MARK!r} + json.dumps({{"installed": False}}))
    sys.exit(0)
import horovod
folder = pathlib.Path(horovod.__file__).parent
def loaded_mpi():
    import ctypes, re
    maps = pathlib.Path("/proc/self/maps").read_text()
    found = re.search(r" (/.*/libmpi(ch)?[.]so.*)", maps)
    ask = found and getattr(ctypes.CDLL(found[1]), "MPI_Get_library_version", None)
    if not ask:
        return ""
    text, length = ctypes.create_string_buffer(1 << 16), ctypes.c_int()
    ask(text, ctypes.byref(length))
    version = text.value.decode(errors="replace").strip().split("\\n")[0]
    return " ".join(version.split(",")[0].split())
has = {{name: any((folder / name).glob("mpi_lib*.so")) for name in ("torch", "tensorflow")}}
if has["tensorflow"] and not has["torch"]:
    import tensorflow
    import horovod.tensorflow as hvd
    versions = {{"torch_version": "", "tensorflow_version": tensorflow.__version__}}
    gpus, nccl = len(tensorflow.config.list_physical_devices("GPU")), None
else:
    import torch
    import horovod.torch as hvd
    built_for = json.loads((folder / "metadata.json").read_text()) if has["tensorflow"] else {{}}
    versions = {{"torch_version": torch.__version__,
        "tensorflow_version": built_for.get("tensorflow", "")}}
    nccl = torch.cuda.nccl.version() if torch.version.cuda else None
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
maps = pathlib.Path("/proc/self/maps")
lines = maps.read_text().splitlines() if maps.exists() else []
files = {{"/" + line.partition(" /")[2] for line in lines if ".so" in line}}
for name in ("horovod", "torch", "tensorflow") if files else ():
    files |= {{f"{{folder}}/{{name}}/__init__.py" for folder in sys.path}}
print({_MARK!r} + json.dumps({{
    "installed": True,
    "files": dict.fromkeys(sorted(files), ()),
    "version": horovod.__version__,
    **versions,
    **has,
    "mpi": bool(hvd.mpi_built()),
    "mpi_library": loaded_mpi() if hvd.mpi_built() else "",
    "gloo": bool(hvd.gloo_built()),
    "nccl": bool(hvd.nccl_built()),
    "cuda_available": gpus > 0,
    "cuda_device_count": gpus,
    "nccl_version": None if nccl is None else ".".join(map(str, nccl)),
}}))
"""

_TORCH_QUESTION = """
import json
import torch
nccl = torch.cuda.nccl.version() if torch.version.cuda else None
gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
found = {
    "torch": True,
    "torch_version": torch.__version__,
    "nccl_version": None if nccl is None else ".".join(map(str, nccl)),
}
"""
_TENSORFLOW_QUESTION = """
import json
import tensorflow
gpus = len(tensorflow.config.list_physical_devices("GPU"))
found = {
    "torch": False,
    "torch_version": "",
    "tensorflow_version": tensorflow.__version__,
    "nccl_version": None,
}
"""
_ANSWER = f"""
print({_MARK!r} + json.dumps({{
    "installed": True,
    "version": "",
    **dict.fromkeys(("mpi", "gloo", "nccl", "tensorflow"), False),
    "cuda_available": gpus > 0,
    "cuda_device_count": gpus,
    **found,
}}))
"""


@dataclass(frozen=True)
class HorovodBuild:
    """The Horovod of an interpreter: its version and what it was built with.

    ``torch``, ``tensorflow``, ``mpi``, ``gloo`` and ``nccl`` say what was compiled in; where torch
    was, it is the one that is asked: ``cuda_available`` and ``cuda_device_count`` are its view of
    this machine, ``nccl_version`` is that of its NCCL, ``None`` where it has none. Else TensorFlow
    is asked, and ``torch_version`` is empty, as ``tensorflow_version`` is without TensorFlow.
    ``mpi_library`` is name and version of the MPI that it loads, as MPI prints them (``'Open MPI
    v4.1.8'``), empty without MPI. ``files`` are what the answer rests on: the libraries that were
    loaded and each place of Horovod and its frameworks in Python's path; in the cache with their
    ``stamps``.
    """

    version: str
    torch_version: str
    torch: bool
    tensorflow: bool
    mpi: bool
    gloo: bool
    nccl: bool
    cuda_available: bool
    cuda_device_count: int
    nccl_version: str | None
    tensorflow_version: str = ""
    mpi_library: str = ""
    files: Mapping[str, Sequence[int]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def framework(self) -> str:
        """What it was built for, ``'torch 2.13.0'``, ``'torch 2.13.0 and TensorFlow 2.21.0'``."""
        of = {"torch": self.torch_version, "TensorFlow": self.tensorflow_version}
        return " and ".join(f"{name} {version}" for name, version in of.items() if version)


@dataclass(frozen=True)
class HorovodProblem:
    """Horovod is installed but cannot be used: ``reason`` is the last line that says why."""

    reason: str


def require_horovod(python: str = sys.executable) -> HorovodBuild:
    """The Horovod of an interpreter, from the user's cache where none of its files has changed.

    Raises:
        EnvironmentNotReadyError: It is not installed, or it is and cannot be imported.
    """
    answer = _known_horovod(python)
    if answer is None:
        raise EnvironmentNotReadyError(
            "Horovod is not installed.",
            hint=f"{INSTALL_HINT}   (DDP needs none: hvdprof bench --engine ddp)",
        )
    if isinstance(answer, HorovodProblem):
        raise EnvironmentNotReadyError(
            f"Horovod is installed but cannot be imported: {answer.reason}",
            hint=f"{INSTALL_HINT} --force",
        )
    return answer


def require_torch(python: str = sys.executable) -> HorovodBuild:
    """The Horovod of an interpreter, or its PyTorch alone as one without a version.

    Raises:
        EnvironmentNotReadyError: There is no PyTorch that can be imported.
    """
    answer = _known_horovod(python)
    if isinstance(answer, HorovodBuild) and answer.torch:
        return answer
    return _require(python, _TORCH_QUESTION, "PyTorch", "pip install torch")


def require_tensorflow(python: str = sys.executable) -> HorovodBuild:
    """The TensorFlow of an interpreter alone, as a Horovod without a version.

    Raises:
        EnvironmentNotReadyError: There is no TensorFlow that can be imported.
    """
    hint = "pip install tensorflow   (docs/howto/tensorflow.md)"
    return _require(python, _TENSORFLOW_QUESTION, "TensorFlow", hint)


@functools.cache
def _require(python: str, question: str, name: str, hint: str) -> HorovodBuild:
    found = _ask(python, question + _ANSWER) or HorovodProblem("it is not installed")
    if isinstance(found, HorovodProblem):
        raise EnvironmentNotReadyError(f"{name} cannot be imported: {found.reason}", hint=hint)
    return found


@functools.cache
def ask_horovod(python: str = sys.executable) -> HorovodBuild | HorovodProblem | None:
    """The Horovod of an interpreter, what is wrong with it, or ``None`` where there is none.

    The child process is asked once per interpreter; ``forget_horovod`` makes it ask again.
    """
    return _ask(python, _QUESTION, _environment(python))


def _ask(
    python: str, question: str, environment: dict[str, str] | None = None
) -> HorovodBuild | HorovodProblem | None:
    # -P: in a clone of Horovod's source, that would be found in place of the installed one.
    command = [python, "-P", "-c", question]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=180, check=False, env=environment
        )
    except OSError as error:
        return HorovodProblem(f"{python} could not be started: {error.strerror}")
    except subprocess.TimeoutExpired:
        return HorovodProblem("its import did not end within 180 s")
    return parse_answer(answer.returncode, answer.stdout, answer.stderr)


def _environment(python: str) -> dict[str, str]:
    mpi = find_mpi(python)
    return {**os.environ, **(mpi.environment(dict(os.environ)) if mpi else {})}


@functools.cache
def _known_horovod(python: str) -> HorovodBuild | HorovodProblem | None:
    # How many GPUs there are depends on more than files: allocation, driver, faults.
    if any(map(glob.glob, GPU_DEVICES)):
        return ask_horovod(python)
    of_loaders = [pair for pair in sorted(_environment(python).items()) if _OF_LOADERS(pair[0])]
    asked = (python, platform.node(), __version__, _QUESTION, of_loaders)
    digest = hashlib.sha256(repr(asked).encode()).hexdigest()[:16]
    # A user may have no home: a RuntimeError.
    with contextlib.suppress(UnreadableInputError, RuntimeError):
        file = cache_folder() / f"horovod/{digest}.json"
        cached = read_json(HorovodBuild, file) if is_trusted(file) else None
        if cached and cached.files == stamps(cached.files):
            return cached
    answer = ask_horovod(python)
    if isinstance(answer, HorovodBuild) and answer.files:
        write_cached(
            f"horovod/{digest}.json", replace(answer, files=stamps(answer.files)), most=MOST_CACHED
        )
    return answer


def forget_horovod() -> None:
    """Make the next question ask the interpreter again, after something was installed."""
    ask_horovod.cache_clear()
    _known_horovod.cache_clear()


def parse_answer(exit_code: int, stdout: str, stderr: str) -> HorovodBuild | HorovodProblem | None:
    """What the child process said; separate from asking so that it can be tested on texts."""
    marked = [line for line in stdout.splitlines() if line.startswith(_MARK)]
    if exit_code != 0 or not marked:
        return HorovodProblem(_last_line(stderr) or _ended(exit_code))
    record: dict[str, Any] = json.loads(marked[-1].removeprefix(_MARK))
    if not record.pop("installed"):
        return None
    return HorovodBuild(**record)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _ended(exit_code: int) -> str:
    if exit_code < 0:
        return f"the interpreter was ended by signal {-exit_code} while importing it"
    return f"the interpreter ended with code {exit_code} while importing it"
