"""The recorder file of a rank: whole lines, and the first, which says what process this is."""

import importlib.metadata
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hvdprof.collect.host_facts import (
    Identity,
    given_cores,
    host_facts,
    loaded_horovod,
    loaded_torch_distributed,
    pid_namespace,
)
from hvdprof.rundir.plan import DDP_ENGINE
from hvdprof.rundir.recording.recorder_codec import to_bytes
from hvdprof.rundir.recording.recorder_format import (
    RECORDER_SCHEMA_VERSION,
    HeaderLine,
    RecorderLine,
    Versions,
)
from hvdprof.rundir.written_file import make_run_folders, open_descriptor

MAX_BYTES = 2**29
"""Of a file to which steps are added: 300,000 steps of 161 gradients, some days of training."""


def header_line(
    identity: Identity, device: str, clock: Callable[[], int] = time.monotonic_ns, engine: str = ""
) -> HeaderLine:
    """The ``header`` line of this process.

    Args:
        identity: Which rank it is.
        device: Where the model computes.
        clock: Nanoseconds.
        engine: What reduces without Horovod; empty where that is not known, which counts as DDP
            under ``torch.distributed``.
    """
    line: HeaderLine = {
        "kind": "header",
        "schema_version": RECORDER_SCHEMA_VERSION,
        "rank": identity.rank,
        "size": identity.size,
        "local_rank": identity.local_rank,
        "local_size": identity.local_size,
        "pid": os.getpid(),
        "pid_namespace": pid_namespace(),
        "wall_ns": time.time_ns(),
        "monotonic_ns": clock(),
        "device": device,
        "affinity": sorted(os.sched_getaffinity(0)),
        "given_cores": given_cores(),
        "num_gpus": _num_gpus(device),
        "num_threads": _num_threads(),
        "versions": _versions(),
        "host": host_facts(),
    }
    if loaded_horovod() is None and (engine or loaded_torch_distributed() is not None):
        line["engine"] = engine or DDP_ENGINE
    if device.startswith("cuda"):
        if gpu := _gpu(device):
            line["gpu"] = gpu
        if backend := _backend():
            line["backend"] = backend
    return line


def _versions() -> Versions:
    versions: Versions = {
        "python": platform.python_version(),
        "torch": _version("torch"),
        "horovod": _version("horovod"),
    }
    # Only where it trains: many environments have it for its boards alone.
    if "tensorflow" in sys.modules:
        versions["tensorflow"] = _version("tensorflow")
    return versions


def _num_threads() -> int | None:
    torch, tensorflow = sys.modules.get("torch"), sys.modules.get("tensorflow")
    if torch is not None:
        return int(torch.get_num_threads())
    setting = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    if tensorflow is None or not setting.isdecimal():
        return None
    return int(setting) or None


def _num_gpus(device: str) -> int | None:
    torch = sys.modules.get("torch")
    if torch is None or not device.startswith("cuda"):
        return None
    return int(torch.cuda.device_count())


def _gpu(device: str) -> str:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    number = device.removeprefix("cuda").removeprefix(":")
    return gpu_uuid(int(number) if number else torch.cuda.current_device())


def gpu_uuid(number: int) -> str:
    """The UUID of a GPU that CUDA runs on, as torch has it; empty before torch 2.3."""
    properties = sys.modules["torch"].cuda.get_device_properties(number)
    return str(getattr(properties, "uuid", ""))


def _backend() -> str:
    """What reduces tensors on GPUs: nccl, gloo, mpi; empty where that is not known."""
    if (hvd := loaded_horovod()) is not None:
        built = (("nccl", hvd.nccl_built), ("mpi", hvd.mpi_enabled), ("gloo", hvd.gloo_enabled))
        return next((name for name, has in built if has()), "")
    distributed = loaded_torch_distributed()
    if distributed is None:
        return ""
    # torch 2 has a backend for each kind of device: `cpu:gloo,cuda:nccl`.
    states = getattr(distributed, "get_backend_config", distributed.get_backend)
    text = str(states())
    by_device = dict(part.split(":", 1) for part in text.split(",") if ":" in part)
    return by_device.get("cuda", "" if by_device else text)


def _version(package: str) -> str | None:
    module = sys.modules.get(package)
    if module is not None:
        return str(module.__version__)
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class LineWriter:
    """A new recorder file that only grows, by whole lines.

    It belongs to the process that made it: in a forked process, writing does nothing.

    Raises:
        FileExistsError: The file exists: another process takes itself for this rank, or an earlier
            run wrote into the same folder. Two mixed recordings could not be separated.
        OSError: The file cannot be made.
    """

    def __init__(self, path: Path, *, is_new: bool = True) -> None:
        make_run_folders(path.parent)
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_EXCL if is_new else 0)
        self._descriptor = open_descriptor(path, flags)
        self._size_bytes = 0 if is_new else os.fstat(self._descriptor).st_size
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @property
    def is_closed(self) -> bool:
        """Whether the file takes no more lines."""
        return self._descriptor < 0

    @property
    def size_bytes(self) -> int:
        """What was written so far."""
        return self._size_bytes

    @property
    def is_full(self) -> bool:
        """Whether it has reached ``MAX_BYTES``; it still takes what is written."""
        return self._size_bytes >= MAX_BYTES

    def write(self, *lines: RecorderLine) -> None:
        """Append lines with one call of the system; of a line that does not fit nothing stays.

        Raises:
            OSError: The disk is full, the file is closed, or the like.
        """
        if os.getpid() != self._pid:
            return
        data = b"".join(map(to_bytes, lines))
        # The watchdog's thread writes, too.
        with self._lock:
            written = os.write(self._descriptor, data)
            if written == len(data):
                self._size_bytes += written
                return
            self._size_bytes += data.rfind(b"\n", 0, written) + 1
            os.ftruncate(self._descriptor, self._size_bytes)
        # The kernel writes a part only when the disk is full.
        raise OSError(f"disk full: only {written} of {len(data)} bytes fitted into {self.path}")

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
