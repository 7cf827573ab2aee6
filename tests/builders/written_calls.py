"""One job of a collective per step, written as four recorders write it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.builders.flight_dumps import STARTED_NS, dump, write_dumps
from tests.builders.nsys_exports import (
    DOMAIN,
    MADE,
    REDUCED,
    Range,
    add_schemas,
    payload,
    write_export,
)
from tests.builders.profiler_traces import TracedJob, write_traces

WORLD, BYTES = 0xABCD, 4096
KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


@dataclass(frozen=True)
class Calls:
    """When each rank arrives at each collective, and when all leave it, ns; [calls, ranks]."""

    arrived: np.ndarray
    released: np.ndarray

    @property
    def size(self) -> int:
        """Ranks."""
        return self.arrived.shape[1]


def calls_of(traced: TracedJob) -> Calls:
    """The collectives of a job that ``profiler_traces`` writes."""
    before = ("data", "forward", "backward")
    own = np.array([sum(traced.length(rank, one) for one in before) for rank in range(traced.size)])
    after = max(traced.length(rank, "optimizer") for rank in range(traced.size))
    step = own.max() + traced.transfer + after
    begins = np.arange(traced.num_steps) * step
    arrived = begins[:, None] + own
    return Calls(
        (arrived * 1000).astype(int), ((begins + own.max() + traced.transfer) * 1000).astype(int)
    )


def as_flight_recorder(folder: Path, calls: Calls) -> Path:
    """Dumps: submissions alone, by the clock of an unknown host."""
    number = len(calls.arrived)
    dumps = {}
    for rank in range(calls.size):
        content = dump(ranks=range(calls.size), enqueued=number, completed=number)
        entries = content["entries"]
        assert isinstance(entries, list)
        for one, at in zip(entries, calls.arrived[:, rank].tolist(), strict=True):
            # A dump with the times of another one is a copy of it.
            one["time_created_ns"] = STARTED_NS + at + rank
        dumps[rank] = content
    return write_dumps(folder, dumps)


def as_inspector(
    folder: Path, calls: Calls, shift_ns: Callable[[int], int] = lambda rank: 0
) -> Path:
    """Verbose logs, one per rank, each by the clock of its own host."""
    folder.mkdir()
    for rank in range(calls.size):
        head = {
            "header": {"id": "0xab", "rank": rank, "n_ranks": calls.size, "nnodes": calls.size},
            "metadata": {
                "inspector_output_format_version": "v4.0", "hostname": f"n{rank}", "pid": rank,
            },
        }  # fmt: skip
        lines = []
        for seq, (at, end) in enumerate(
            zip(calls.arrived[:, rank].tolist(), calls.released.tolist(), strict=True), start=1
        ):
            start, stop = ((STARTED_NS + one + shift_ns(rank)) // 1000 for one in (at, end))
            event = {"channel_id": 0, "kernel_start_ts": start, "kernel_stop_ts": stop}
            perf = {
                "coll": "AllReduce", "coll_sn": seq, "coll_msg_size_bytes": BYTES,
                "coll_exec_time_us": stop - start, "coll_timing_source": "kernel_gpu",
                "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.0,
                "event_trace_ts": {"kernel_events": [event]},
            }  # fmt: skip
            lines.append(json.dumps({**head, "coll_perf": perf}))
        (folder / f"pid{rank}.log").write_text("\n".join(lines) + "\n")
    return folder


def as_nsys(folder: Path, calls: Calls, shift_ns: Callable[[int], int] = lambda rank: 0) -> Path:
    """Exports with payloads, one per rank, each by the clock of its own session."""
    folder.mkdir()
    for rank in range(calls.size):
        made = payload(MADE, WORLD, calls.size, rank, 0)
        ranges = [
            Range(0, 0, "NCCL", DOMAIN, domain=1),
            Range(1, 2, "ncclCommInitRankConfig", domain=1, data=made),
        ]
        kernels = []
        moved = (calls.arrived[:, rank] + shift_ns(rank) + 10_000_000).tolist()
        ends = (calls.released + shift_ns(rank) + 10_000_000).tolist()
        for start, end in zip(moved, ends, strict=True):
            data = payload(REDUCED, WORLD, BYTES, 0)
            ranges.append(Range(start - 900, start - 500, "ncclAllReduce", domain=1, data=data))
            kernels += [(start - 5000, start - 1000, 0, "gemm"), (start, end, 0, KERNEL)]
        add_schemas(write_export(folder / f"rank{rank}.sqlite", kernels, ranges))
    return folder


def as_kineto(folder: Path, traced: TracedJob) -> Path:
    """Traces of torch.profiler."""
    folder.mkdir()
    write_traces(folder, traced)
    return folder
