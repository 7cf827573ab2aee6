"""The recorder file of a rank of a synthetic run, as its host's clock would have stamped it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hvdprof.rundir.plan import TORCH_DISTRIBUTED_ENGINES
from tests.builders.run_spec import (
    FIRST_STEP_NS,
    HEADER_NS,
    WALL_OF_CLOCK_ZERO_NS,
    PassSpec,
    SegmentSpec,
    segment_length_ns,
)


def host_of(name: str, num_cores: int = 8) -> dict[str, Any]:
    """Host facts of a host of that name."""
    return {
        "hostname": name,
        "boot_id": f"boot-{name}",
        "kernel": "6.1",
        "cpu_model": "Example CPU",
        "num_cores": num_cores,
        "memory_bytes": 16_000_000_000,
        "nics": [],
        "gpus": [],
    }


@dataclass(frozen=True)
class _HostClock:
    """True time to what the monotonic clock of a rank's host showed."""

    offset_ns: float
    drift_ns: float
    end_ns: int

    def offset_at(self, true_ns: int) -> float:
        return self.offset_ns + self.drift_ns * true_ns / self.end_ns

    def __call__(self, true_ns: int) -> int:
        return round(true_ns - self.offset_at(true_ns))


def recorder_lines(spec: PassSpec, rank: int) -> Iterator[dict[str, Any]]:
    """The lines of one rank's recorder file."""
    end_ns = FIRST_STEP_NS + sum(segment_length_ns(one, spec.size) for one in spec.segments)
    offset, drift = (
        np.broadcast_to(np.asarray(value, dtype=float), (spec.size,))[rank]
        for value in (spec.offset_ms, spec.drift_ms)
    )
    clock = _HostClock(offset * 1e6, drift * 1e6, end_ns)
    yield _header(spec, rank, clock)
    yield _exchange(spec, "start", HEADER_NS, clock)
    start_ns = FIRST_STEP_NS
    for segment in spec.segments:
        yield from _segment_lines(segment, spec.size, rank, start_ns, clock)
        start_ns += segment_length_ns(segment, spec.size)
    if spec.with_end:
        yield _exchange(spec, "end", end_ns, clock)
        yield {"kind": "end", "monotonic_ns": clock(end_ns)}


def _header(spec: PassSpec, rank: int, clock: _HostClock) -> dict[str, Any]:
    host = spec.hosts[rank] if spec.hosts else "node1"
    engines = [one.engine for one in spec.segments if one.engine in TORCH_DISTRIBUTED_ENGINES]
    return {
        "kind": "header",
        "schema_version": 1,
        "rank": rank,
        "size": spec.size,
        "local_rank": rank,
        "local_size": spec.size,
        "pid": 1000 + rank,
        "wall_ns": WALL_OF_CLOCK_ZERO_NS + HEADER_NS,
        "monotonic_ns": clock(HEADER_NS),
        "device": "cpu",
        "affinity": [rank],
        "num_threads": spec.num_threads[rank] if spec.num_threads else 1,
        "versions": {"python": "3.11.2", "torch": "2.13.0", "horovod": "0.28.1"},
        "host": host_of(host),
        **({"engine": engines[0]} if engines else {}),
    }


def _exchange(spec: PassSpec, when: str, true_ns: int, clock: _HostClock) -> dict[str, Any]:
    return {
        "kind": "clock",
        "when": when,
        "method": "tcp" if spec.clock_error_ns else "same-clock",
        "monotonic_ns": clock(true_ns),
        "offset_ns": true_ns - clock(true_ns),
        "error_ns": spec.clock_error_ns,
        "min_rtt_ns": 2 * spec.clock_error_ns,
        "num_exchanges": 20,
    }


def _segment_lines(
    segment: SegmentSpec, size: int, rank: int, start_ns: int, clock: _HostClock
) -> Iterator[dict[str, Any]]:
    sent = 2 if segment.compression == "fp16" else 1
    yield {
        "kind": "segment",
        "id": segment.id,
        "monotonic_ns": clock(start_ns),
        "tensors": [
            {"name": name, "size_bytes": size_bytes, "sent_bytes": size_bytes // sent}
            for name, size_bytes in segment.tensors.items()
        ],
    }
    lengths = {part: values[rank] for part, values in segment.lengths_ns(size).items()}
    for step in range(len(lengths["data"])):
        length = {part: int(values[step]) for part, values in lengths.items()}
        if segment.timeline and step == segment.num_warmup_batches:
            yield _timeline_line("start", segment, start_ns, clock)
        yield _step_line(segment, rank, step, length, start_ns) | {"start_ns": clock(start_ns)}
        start_ns += sum(length.values())
    if segment.timeline:
        yield _timeline_line("stop", segment, start_ns, clock)
    yield {"kind": "segment_end", "id": segment.id, "monotonic_ns": clock(start_ns)}


def _timeline_line(
    action: str, segment: SegmentSpec, true_ns: int, clock: _HostClock
) -> dict[str, Any]:
    return {
        "kind": "timeline",
        "action": action,
        "file": f"timeline/{segment.id}.json",
        "monotonic_ns": clock(true_ns),
        "wall_ns": WALL_OF_CLOCK_ZERO_NS + true_ns,
    }


def _step_line(
    segment: SegmentSpec, rank: int, step: int, length: Mapping[str, int], start_ns: int
) -> dict[str, Any]:
    phases, offset = [], 0
    for name in ("data", "forward", "backward"):
        phases.append([name, offset, length[name]])
        offset += length[name]
    waits = [offset, length["blocked"]]
    if segment.engine == "ddp":
        # DDP waits at the end of backward, Horovod in the optimizer.
        phases.append(["collective", *waits])
        phases.append(["optimizer", sum(waits), length["optimizer"]])
    else:
        phases.append(["optimizer", offset, length["blocked"] + length["optimizer"]])
    line: dict[str, Any] = {
        "kind": "step",
        "segment": segment.id,
        "step": step,
        "warmup": step < segment.num_warmup_batches,
        "start_ns": start_ns,
        "dur_ns": sum(length.values()),
        "samples": _samples(segment, rank, step),
        "phases": phases,
        "ready": _ready(segment, rank, step, length),
        "blocked": [waits] if length["blocked"] else [],
    }
    if not segment.seen_inside:
        # TensorFlow's gradients have no moments of their own either.
        line |= {"phases": [], "blocked": None, "ready": [-1] * len(segment.tensors)}
    if segment.buckets:
        line["buckets"] = [
            [round(start * 1e6), round(dur * 1e6), list(members)]
            for start, dur, members in segment.buckets
        ]
    if segment.loss is not None:
        num_steps = segment.num_warmup_batches + segment.num_steps
        line["loss"] = float(np.broadcast_to(np.asarray(segment.loss), num_steps)[step])
    return line


def _samples(segment: SegmentSpec, rank: int, step: int) -> int:
    return segment.batch_size if segment.samples is None else int(segment.samples[rank, step])


def _ready(segment: SegmentSpec, rank: int, step: int, length: Mapping[str, int]) -> list[int]:
    if segment.ready_ms is not None:
        return [round(1e6 * ready) for ready in np.asarray(segment.ready_ms)[rank, step]]
    count, before = len(segment.tensors), length["data"] + length["forward"]
    # Backward produces the gradients of the last layers first.
    return [before + length["backward"] * (count - i) // count for i in range(count)]
