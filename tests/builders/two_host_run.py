"""A run on two hosts whose network was measured first, and waits for that network."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.builders.net_recording import link, net_recording
from tests.builders.recorder_lines import host_of
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

HOSTS = ("h1", "h2")
GRADIENT_BYTES = 4_000_000
_TRANSFER_MS = 2 + GRADIENT_BYTES / 1e7 * 1e3


def two_host_run(folder: Path, *, share: float = 0.9, **recording: Any) -> Path:
    """Torch, and Horovod on one and on two hosts; an allreduce a step carries 4 MB.

    Args:
        folder: Where to.
        share: What the allreduces reach of 10 MB/s, which the network gives (2 ms when empty).
        recording: Fields of the recording of the network in place of those of ``net_recording``.
    """
    write_run(folder, _passes(share), hosts=[host_of(name) for name in HOSTS])
    records = [
        *link("tcp", alpha_ns=50_000, bytes_per_s=12e6, ends=(1, 0)),
        *link("broadcast", alpha_ns=1_000_000, bytes_per_s=11e6, ends=(0, 1)),
        *link("allreduce", alpha_ns=2_000_000, bytes_per_s=10e6, ends=None),
    ]
    net_recording(**({"hosts": list(HOSTS), "records": records} | recording)).write(folder)
    return folder


def _passes(share: float) -> list[PassSpec]:
    tensors = {"allreduce.fc.weight": GRADIENT_BYTES}
    blocked_ms = _TRANSFER_MS / share
    noise = np.random.default_rng(5).normal(0, 0.01 * blocked_ms, 62)
    passes = []
    for repeat in (1, 2):
        alone = SegmentSpec(parts_ms=typical_parts(100.0 + repeat), tensors=tensors)
        torch = SegmentSpec(engine="torch", parts_ms=typical_parts(100.0 + repeat))
        passes += [
            PassSpec(size=1, repeat=repeat, segments=[torch], hosts=HOSTS[:1]),
            PassSpec(size=1, repeat=repeat, segments=[alone], hosts=HOSTS[:1]),
            _of_both(blocked_ms + noise, repeat, tensors, "throughput"),
        ]
    return [*passes, _of_both(blocked_ms + noise, 1, tensors, "trace")]


def _of_both(blocked_ms: Any, repeat: int, tensors: dict[str, int], mode: str) -> PassSpec:
    parts = typical_parts(100.0 + repeat + blocked_ms, blocked_ms)
    segment = SegmentSpec(parts_ms=parts, tensors=tensors, timeline=mode == "trace")
    return PassSpec(size=2, repeat=repeat, mode=mode, segments=[segment], hosts=HOSTS)
