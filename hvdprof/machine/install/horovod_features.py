"""What the installed Horovod can do, asked from a child process: the parent never imports it."""

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine.mpi import find_mpi

INSTALL_HINT = "hvdprof install-horovod"

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
print({_MARK!r} + json.dumps({{
    "installed": True,
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
    v4.1.8'``), empty without MPI.
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
    """The Horovod of an interpreter.

    Raises:
        EnvironmentNotReadyError: It is not installed, or it is and cannot be imported.
    """
    answer = ask_horovod(python)
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
    answer = ask_horovod(python)
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


def _require(python: str, question: str, name: str, hint: str) -> HorovodBuild:
    found = _ask_alone(python, question)
    if isinstance(found, HorovodProblem):
        raise EnvironmentNotReadyError(f"{name} cannot be imported: {found.reason}", hint=hint)
    return found


@functools.cache
def _ask_alone(python: str, question: str) -> HorovodBuild | HorovodProblem:
    try:
        answer = subprocess.run(
            [python, "-P", "-c", question + _ANSWER],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    except OSError as error:
        return HorovodProblem(f"{python} could not be started: {error.strerror}")
    except subprocess.TimeoutExpired:
        return HorovodProblem("its import did not end within 180 s")
    found = parse_answer(answer.returncode, answer.stdout, answer.stderr)
    return found or HorovodProblem("it is not installed")


@functools.cache
def ask_horovod(python: str = sys.executable) -> HorovodBuild | HorovodProblem | None:
    """The Horovod of an interpreter, what is wrong with it, or ``None`` where there is none.

    The child process is asked once per interpreter; ``forget_horovod`` makes it ask again.
    """
    mpi = find_mpi(python)
    environment = {**os.environ, **(mpi.environment(dict(os.environ)) if mpi else {})}
    try:
        answer = subprocess.run(
            # -P: in a clone of Horovod's source, that would be found in place of the installed one.
            [python, "-P", "-c", _QUESTION],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env=environment,
        )
    except OSError as error:
        return HorovodProblem(f"{python} could not be started: {error.strerror}")
    except subprocess.TimeoutExpired:
        return HorovodProblem("its import did not end within 180 s")
    return parse_answer(answer.returncode, answer.stdout, answer.stderr)


def forget_horovod() -> None:
    """Make the next question ask the interpreter again, after something was installed."""
    ask_horovod.cache_clear()


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
