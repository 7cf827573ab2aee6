"""Traces of torch.profiler whose steps, phases and waits are known, on CPUs and on GPUs."""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BASE_NS = 1_790_857_026_000_000_000
MAIN, WORKER, COMPUTE, COMMUNICATION = 100, 200, 7, 40

Event = dict[str, Any]


@dataclass(frozen=True)
class TracedJob:
    """A job of ranks that all do the same, but for what is added to a phase of a rank.

    Times in µs: data, forward, backward and optimizer of every rank, and the transfer after the
    last rank has arrived. ``late`` adds to a phase of a rank in every step.
    """

    size: int = 2
    num_steps: int = 12
    data: float = 1000.0
    forward: float = 3000.0
    backward: float = 5000.0
    optimizer: float = 500.0
    transfer: float = 1000.0
    late: dict[tuple[int, str], float] = field(default_factory=dict)
    backend: str = "gloo"
    host: Callable[[int], str] = lambda rank: "node0"
    marked: bool = True
    with_base: bool = True
    shift_us: Callable[[int], float] = lambda rank: 0.0

    @property
    def on_gpu(self) -> bool:
        """Whether kernels do the work."""
        return self.backend == "nccl"

    def length(self, rank: int, phase: str) -> float:
        """How long a phase of a rank takes, µs."""
        return float(getattr(self, phase)) + self.late.get((rank, phase), 0.0)

    def trace(self, rank: int) -> dict[str, Any]:
        """The trace of a rank."""
        header: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "A100"}] if self.on_gpu else [],
            "distributedInfo": {"backend": self.backend, "rank": rank, "world_size": self.size},
            "traceEvents": [_shifted(one, self.shift_us(rank)) for one in self.events(rank)],
        }
        if self.host(rank):
            header["host_name"] = self.host(rank)
        if self.with_base:
            header["baseTimeNanoseconds"] = BASE_NS
        return header

    def events(self, rank: int) -> list[Event]:
        """The events of a rank, phase after phase; all ranks are released together."""
        at, events = 1_000_000.0, []
        ranks = range(self.size)
        for number in range(self.num_steps):
            begin = at
            arrived = {
                one: begin
                + sum(self.length(one, phase) for phase in ("data", "forward", "backward"))
                for one in ranks
            }
            released = max(arrived.values()) + self.transfer
            ends = {one: released + self.length(one, "optimizer") for one in ranks}
            make = self._gpu_step if self.on_gpu else self._cpu_step
            events += make(rank, number, begin, arrived[rank], released, ends[rank])
            at = max(ends.values())
        if self.marked:
            step = at - 1_000_000.0
            events += [
                annotation(f"ProfilerStep#{n + 2}", 1_000_000.0 + n * step / self.num_steps,
                           step / self.num_steps)
                for n in range(self.num_steps)
            ]  # fmt: skip
        return events

    def _host_phases(self, rank: int, begin: float, arrived: float) -> list[Event]:
        data = self.length(rank, "data")
        backward = arrived - self.length(rank, "backward")
        return [
            annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, data),
            annotation("DistributedDataParallel.forward", begin + data, backward - begin - data),
            operation("autograd::engine::evaluate_function: MmBackward0", backward,
                      arrived - backward),
        ]  # fmt: skip

    def _cpu_step(
        self, rank: int, number: int, begin: float, arrived: float, released: float, end: float
    ) -> list[Event]:
        shapes = {"Input Dims": [[250]], "Input type": ["float"]}
        return [
            *self._host_phases(rank, begin, arrived),
            operation("c10d::allreduce_", arrived - 1, 1),
            annotation("gloo:all_reduce", arrived, released - arrived, WORKER, shapes),
            annotation("Optimizer.step#SGD.step", released, end - released),
        ]

    def _gpu_step(
        self, rank: int, number: int, begin: float, arrived: float, released: float, end: float
    ) -> list[Event]:
        args = {
            "External id": 1000 + number,
            "Collective name": "allreduce",
            "dtype": "Float",
            "In msg nelems": 250,
            "Out msg nelems": 250,
            "Group size": self.size,
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(self.size))),
            "Seq": 10 + number,
        }
        computed = [
            ("forward", begin + self.length(rank, "data"), arrived - self.length(rank, "backward")),
            ("backward", arrived - self.length(rank, "backward"), arrived),
            ("optimizer", released, end),
        ]
        found = [
            *self._host_phases(rank, begin, arrived),
            annotation("Optimizer.step#SGD.step", released, end - released),
            operation("record_param_comms", arrived - 1, 1, args),
            kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                   arrived, released - arrived, COMMUNICATION,
                   {"External id": 1000 + number, "stream": COMMUNICATION}),
        ]  # fmt: skip
        for place, (name, start, stop) in enumerate(computed):
            correlation = 10 * number + place
            found.append(runtime("cudaLaunchKernel", start, 5, {"correlation": correlation}))
            found.append(
                kernel(f"{name}_kernel", start, stop - start, COMPUTE,
                       {"stream": COMPUTE, "correlation": correlation})
            )  # fmt: skip
        return found


def write_traces(
    folder: Path, job: TracedJob, ranks: Sequence[int] | None = None, *, packed: bool = False
) -> list[Path]:
    """The files of the ranks of a job, all of them where none is named."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in range(job.size) if ranks is None else ranks:
        path = folder / f"trace_rank{rank}.json{'.gz' if packed else ''}"
        text = json.dumps(job.trace(rank), indent=1).encode()
        path.write_bytes(gzip.compress(text) if packed else text)
        paths.append(path)
    return paths


def annotation(
    name: str, start: float, length: float, thread: int = MAIN, args: Event | None = None
) -> Event:
    """An event of category user_annotation."""
    return _event("user_annotation", name, start, length, thread, args)


def operation(name: str, start: float, length: float, args: Event | None = None) -> Event:
    """An event of category cpu_op."""
    return _event("cpu_op", name, start, length, MAIN, args)


def kernel(name: str, start: float, length: float, stream: int, args: Event) -> Event:
    """An event of category kernel."""
    return _event("kernel", name, start, length, stream, args)


def runtime(name: str, start: float, length: float, args: Event) -> Event:
    """An event of category cuda_runtime."""
    return _event("cuda_runtime", name, start, length, MAIN, args)


def _event(
    category: str, name: str, start: float, length: float, thread: int, args: Event | None
) -> Event:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": thread,
        "ts": round(start, 3),
        "dur": round(length, 3),
        "args": args or {},
    }


def _shifted(event: Event, shift_us: float) -> Event:
    return event | {"ts": round(event["ts"] + shift_us, 3)}
