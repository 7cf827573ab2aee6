"""The first line of a recorder file: which process this is and where it runs."""

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

from hvdprof.collect.host_facts import given_cores, host_facts
from hvdprof.collect.identity import Identity

RECORDER_SCHEMA_VERSION = 1


def header(
    identity: Identity, device: str, clock: Callable[[], int] = time.monotonic_ns
) -> dict[str, Any]:
    """The keys of the ``header`` line (docs/reference/run_directory.md); ``clock`` returns ns."""
    return {
        "schema_version": RECORDER_SCHEMA_VERSION,
        "rank": identity.rank,
        "size": identity.size,
        "local_rank": identity.local_rank,
        "local_size": identity.local_size,
        "pid": os.getpid(),
        "wall_ns": time.time_ns(),
        "monotonic_ns": clock(),
        "device": device,
        "affinity": sorted(os.sched_getaffinity(0)),
        "given_cores": given_cores(),
        "num_gpus": _num_gpus(device),
        "num_threads": _num_threads(),
        "versions": {
            "python": platform.python_version(),
            "torch": _version("torch"),
            "horovod": _version("horovod"),
            # Asked where it trains alone: many environments have it for its boards.
            **({"tensorflow": _version("tensorflow")} if "tensorflow" in sys.modules else {}),
        },
        "host": host_facts(),
    }


def _num_threads() -> int | None:
    torch, tensorflow = sys.modules.get("torch"), sys.modules.get("tensorflow")
    if torch is not None:
        return int(torch.get_num_threads())
    told = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    return int(told) if tensorflow is not None and told.isdecimal() and int(told) else None


def _num_gpus(device: str) -> int | None:
    torch = sys.modules.get("torch")
    return torch.cuda.device_count() if torch is not None and device.startswith("cuda") else None


def _version(package: str) -> str | None:
    module = sys.modules.get(package)
    if module is not None:
        return str(module.__version__)
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
