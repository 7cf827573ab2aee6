"""Traces of FSDP2 on CPUs whose waits are known: two groups of parameters, six per step."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.builders.profiler_traces import BASE_NS, WORKER, Event, annotation, operation

FORWARD, BACKWARD, TRANSFER, COPY = 1500.0, 2500.0, 400.0, 30.0
"""Work of a group, of its transfer, and of the copies behind a reduction, µs."""


@dataclass
class ShardedJob:
    """Ranks that gather and reduce two groups; ``late`` adds µs to a phase of a rank.

    ``gathers_ahead`` gathers the second group of forward while the first one computes. The script
    reduces a mean itself in each update where ``with_mean`` is set.
    """

    size: int = 2
    num_steps: int = 12
    late: dict[tuple[int, str], float] = field(default_factory=dict)
    gathers_ahead: bool = False
    with_mean: bool = False

    def write(self, folder: Path) -> list[Path]:
        """The traces of all ranks."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for rank, events in enumerate(self._events()):
            path = folder / f"trace_rank{rank}.json"
            trace = {
                "schemaVersion": 1,
                "deviceProperties": [],
                "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": self.size},
                "host_name": "node0",
                "traceEvents": events,
                "baseTimeNanoseconds": BASE_NS,
            }
            path.write_text(json.dumps(trace))
            paths.append(path)
        return paths

    def _events(self) -> list[list[Event]]:
        at = [1_000_000.0] * self.size
        events: list[list[Event]] = [[] for _ in at]
        for number in range(self.num_steps):
            begin = list(at)
            self._forward(at, events)
            self._backward(at, events)
            for rank, now in enumerate(at):
                events[rank].append(annotation("Optimizer.step#SGD.step", now, 500.0))
                if self.with_mean:
                    events[rank] += [
                        operation("c10d::allreduce_", now + 10, 2),
                        annotation("gloo:all_reduce", now + 13, 100.0, WORKER),
                    ]
                at[rank] = now + 500.0
                events[rank].append(
                    annotation(f"ProfilerStep#{number + 2}", begin[rank], at[rank] - begin[rank])
                )
        return events

    def _forward(self, at: list[float], events: list[list[Event]]) -> None:
        for rank, now in enumerate(at):
            events[rank].append(annotation("FSDP::root_pre_forward", now, 10.0))
            at[rank] = now + 20.0
        self._gather(at, events, "0")
        if self.gathers_ahead:
            self._gather_ahead(at, events, "1")
            return
        self._work(at, "forward", FORWARD)
        self._gather(at, events, "1")
        self._work(at, "forward", FORWARD)

    def _backward(self, at: list[float], events: list[list[Event]]) -> None:
        begin = list(at)
        for rank, now in enumerate(at):
            events[rank].append(operation("autograd::engine::evaluate_function: A", now, 5.0))
        for group in ("1", "0"):
            self._gather(at, events, group)
            self._work(at, "backward", BACKWARD)
            if group == "1":
                self._reduce(at, events, group)
        for rank, now in enumerate(at):
            length = now - begin[rank]
            events[rank].append(
                operation("autograd::engine::evaluate_function: B", begin[rank], length)
            )
        # The reduction of the last group runs behind the functions of autograd.
        begin = list(at)
        self._reduce(at, events, "0")
        for rank, now in enumerate(at):
            events[rank].append(
                annotation("FSDP::root_post_backward_callback", begin[rank], now - begin[rank])
            )

    def _work(self, at: list[float], phase: str, length: float) -> None:
        for rank in range(self.size):
            at[rank] += length + self.late.get((rank, phase), 0.0) / 2

    def _gather(self, at: list[float], events: list[list[Event]], group: str) -> None:
        shapes = {"Input Dims": [[250]], "Input type": ["float"]}
        released = max(at) + TRANSFER
        for rank, now in enumerate(at):
            events[rank] += [
                annotation(f"FSDP::all_gather ({group})", now, released + 5 - now),
                operation("c10d::_allgather_base_", now + 1, 2),
                annotation("gloo:all_gather", now + 3, released - now - 3, WORKER, shapes),
                annotation(f"FSDP::all_gather_copy_out ({group})", released + 6, 4.0),
            ]
            at[rank] = released + 10

    def _gather_ahead(self, at: list[float], events: list[list[Event]], group: str) -> None:
        """The range around the gather is over before the others have come."""
        submitted = list(at)
        self._work(at, "forward", FORWARD)
        released = max(at) + TRANSFER
        for rank, now in enumerate(at):
            start = submitted[rank]
            events[rank] += [
                annotation(f"FSDP::all_gather ({group})", start, 8.0),
                operation("c10d::_allgather_base_", start + 1, 2),
                annotation("gloo:all_gather", start + 3, released - start - 3, WORKER),
                annotation(f"FSDP::all_gather_copy_out ({group})", now, released + 4 - now),
            ]
            at[rank] = released + 10
        self._work(at, "forward", FORWARD)

    def _reduce(self, at: list[float], events: list[list[Event]], group: str) -> None:
        shapes = {"Input Dims": [[500]], "Input type": ["float"]}
        released = max(at) + TRANSFER
        for rank, now in enumerate(at):
            events[rank] += [
                annotation(f"FSDP::post_backward_reduce ({group})", now, released + COPY - now),
                operation("c10d::_reduce_scatter_base_", now + 1, 2),
                annotation("gloo:all_reduce", now + 3, released - now - 3, WORKER, shapes),
            ]
            at[rank] = released + COPY


def kinds(waits: Sequence[str]) -> str:
    """The kinds of waits by their first letters, such as ``ufufubrsubrs``."""
    return " ".join("".join(word[0] for word in kind.split("_")) for kind in waits)
