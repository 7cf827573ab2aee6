"""Synthetic run directories with known truth: a test states only what matters to it.

    write_run(tmp_path, [PassSpec(size=1, segments=[SegmentSpec(parts_ms=typical_parts(10))]),
                         PassSpec(size=2, segments=[SegmentSpec(parts_ms=typical_parts(12))])])

All times are true times of rank 0's clock; the recorder files are written as the host of each rank
would have seen them, so that an alignment must undo the offsets. Lengths broadcast to one value a
rank and step: a number, ``[steps]`` or ``[ranks, steps]``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hvdprof.rundir.layout import PassPaths, RunPaths
from hvdprof.rundir.manifest import Failure, Manifest, PassRecord, SegmentRecord, Skipped
from hvdprof.rundir.plan import Plan, Segment

WALL_OF_CLOCK_ZERO_NS = 1_795_000_000_000_000_000
FIRST_STEP_NS = 5_000_000_000
PARTS = ("data", "forward", "backward", "blocked", "optimizer", "other")


def typical_parts(step_ms: ArrayLike, blocked_ms: ArrayLike = 0.0) -> dict[str, ArrayLike]:
    """The parts of steps of that length: what is not blocked is split 5/30/50/10/5 percent."""
    rest = np.asarray(step_ms, dtype=float) - np.asarray(blocked_ms, dtype=float)
    shares = {"data": 0.05, "forward": 0.3, "backward": 0.5, "optimizer": 0.1, "other": 0.05}
    return {part: rest * share for part, share in shares.items()} | {"blocked": blocked_ms}


@dataclass(kw_only=True)
class SegmentSpec:
    """A segment and what its ranks recorded.

    ``parts_ms`` gives the length of each of ``PARTS``, a missing one is 0; a step is as long as
    their sum. ``ready_ms`` are offsets from the step's start, ``[ranks, steps, tensors]``; by
    default the gradients get ready evenly over backward. ``timeline`` writes a Horovod timeline in
    which the collectives of a step fill the blocked time of rank 0.
    """

    model: str = "mnist"
    engine: str = "horovod"
    compression: str = "none"
    reduction: str = "average"
    batch_size: int = 32
    image_size: int = 28
    num_warmup_batches: int = 2
    num_steps: int = 60
    parts_ms: Mapping[str, ArrayLike] = field(default_factory=lambda: typical_parts(10.0))
    loss: ArrayLike | None = None
    tensors: Mapping[str, int] = field(
        default_factory=lambda: {"allreduce.fc.weight": 4000, "allreduce.fc.bias": 40}
    )
    ready_ms: ArrayLike | None = None
    timeline: bool = False
    status: str = "done"
    failure: Failure | None = None

    @property
    def id(self) -> str:
        """The id of the segment in the plan."""
        return f"{self.model}-{self.engine}-{self.compression}-{self.reduction}"

    def planned(self) -> Segment:
        """The segment as the plan and the manifest hold it."""
        return Segment(
            id=self.id,
            engine=self.engine,
            model=self.model,
            compression=self.compression,
            reduction=self.reduction,
            batch_size=self.batch_size,
            image_size=self.image_size,
            num_warmup_batches=self.num_warmup_batches,
            num_steps=self.num_steps,
            max_seconds=None,
            timeline=self.timeline,
        )

    def lengths_ns(self, size: int) -> dict[str, NDArray[np.int64]]:
        """The length of every part, one value a rank and step, warm-up batches included."""
        shape = (size, self.num_warmup_batches + self.num_steps)
        return {
            part: np.broadcast_to(
                np.round(np.asarray(self.parts_ms.get(part, 0.0)) * 1e6), shape
            ).astype(np.int64)
            for part in PARTS
        }


@dataclass(kw_only=True)
class PassSpec:
    """One launch: ``hosts`` names the host of each rank, ``offset_ms`` what takes its clock to
    rank 0's at the start, ``drift_ms`` by how much that changed until the end."""

    size: int = 1
    mode: str = "throughput"
    repeat: int = 1
    segments: Sequence[SegmentSpec] = field(default_factory=lambda: [SegmentSpec()])
    status: str = "done"
    oversubscribed: bool = False
    pinned: bool = True
    hosts: Sequence[str] | None = None
    offset_ms: ArrayLike = 0.0
    drift_ms: ArrayLike = 0.0
    clock_error_ns: int = 0
    num_threads: Sequence[int] | None = None
    missing_ranks: Sequence[int] = ()
    with_end: bool = True
    load_average_before: float | None = 0.1
    other_cpu_cores: float | None = 0.02
    steal_share: float | None = 0.0


def write_run(folder: Path, passes: Sequence[PassSpec], **manifest_fields: Any) -> Path:
    """Write a run directory and return it; ``manifest_fields`` replace those of the manifest."""
    records = []
    for number, spec in enumerate(passes, start=1):
        pass_id = f"{number:02d}-np{spec.size}-{spec.mode}-r{spec.repeat}"
        records.append(_pass_record(spec, pass_id))
        _write_pass(spec, pass_id, RunPaths(folder).of_pass(pass_id))
    values: dict[str, Any] = {
        "schema_version": 1,
        "hvdprof_version": "0.0.0",
        "name": "synthetic",
        "created_at": "2026-11-20T22:48:41+00:00",
        "command": ["hvdprof", "bench"],
        "settings": {"scaling": "weak", "num_threads": 1},
        "environment": {},
        "versions": {"python": "3.11.2", "torch": "2.13.0", "horovod": "0.28.1"},
        "hosts": [host_of("node1")],
        "git": None,
        "passes": records,
        "skipped": [],
        "status": "done",
    }
    Manifest(**(values | manifest_fields)).write(RunPaths(folder))
    return folder


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


def skipped(reason: str, **cell: Any) -> Skipped:
    """A cell that could not run."""
    values = {"model": "mnist", "size": 3, "compression": "none", "reduction": "adasum"}
    return Skipped(reason=reason, **(values | cell))


def _pass_record(spec: PassSpec, pass_id: str) -> PassRecord:
    return PassRecord(
        id=pass_id,
        mode=spec.mode,
        size=spec.size,
        repeat=spec.repeat,
        controller="gloo",
        oversubscribed=spec.oversubscribed,
        pinned=spec.pinned,
        segments=[
            SegmentRecord(segment=one.planned(), status=one.status, failure=one.failure)
            for one in spec.segments
        ],
        status=spec.status,
        exit_code=0,
        duration_s=10.0,
        started_at="2026-11-20T22:48:45+00:00",
        load_average_before=spec.load_average_before,
        other_cpu_cores=spec.other_cpu_cores,
        steal_share=spec.steal_share,
    )


def _write_pass(spec: PassSpec, pass_id: str, paths: PassPaths) -> None:
    Plan(
        schema_version=1,
        pass_id=pass_id,
        mode=spec.mode,
        size=spec.size,
        num_threads=1,
        pin_cores=spec.pinned,
        device="cpu",
        data="synthetic",
        data_dir=None,
        seed=0,
        segments=[one.planned() for one in spec.segments],
    ).write(paths.plan)
    paths.stdout.write_text("", encoding="utf-8")
    paths.stderr.write_text("", encoding="utf-8")
    paths.recorder_folder.mkdir(parents=True)
    for rank in set(range(spec.size)) - set(spec.missing_ranks):
        lines = [json.dumps(line) + "\n" for line in _recorder_lines(spec, rank)]
        paths.recorder_file(rank).write_text("".join(lines), encoding="utf-8")
    start_ns = FIRST_STEP_NS
    for one in spec.segments:
        if one.timeline:
            paths.timeline(one.id).parent.mkdir(exist_ok=True)
            paths.timeline(one.id).write_text(timeline_text(one, spec.size, start_ns))
        start_ns += segment_length_ns(one, spec.size)


def segment_length_ns(segment: SegmentSpec, size: int) -> int:
    """The true time from the first step's start to the start of the next segment."""
    lengths = np.sum(list(segment.lengths_ns(size).values()), axis=0)
    return int(lengths.sum(axis=1).max()) + 1_000_000_000


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


def _recorder_lines(spec: PassSpec, rank: int) -> Iterator[dict[str, Any]]:
    end_ns = FIRST_STEP_NS + sum(segment_length_ns(one, spec.size) for one in spec.segments)
    offset, drift = (
        np.broadcast_to(np.asarray(value, dtype=float), (spec.size,))[rank]
        for value in (spec.offset_ms, spec.drift_ms)
    )
    clock = _HostClock(offset * 1e6, drift * 1e6, end_ns)
    yield _header(spec, rank, clock)
    yield _exchange(spec, "start", 0, clock)
    start_ns = FIRST_STEP_NS
    for segment in spec.segments:
        yield from _segment_lines(segment, spec.size, rank, start_ns, clock)
        start_ns += segment_length_ns(segment, spec.size)
    if spec.with_end:
        yield _exchange(spec, "end", end_ns, clock)
        yield {"kind": "end", "monotonic_ns": clock(end_ns)}


def _header(spec: PassSpec, rank: int, clock: _HostClock) -> dict[str, Any]:
    host = spec.hosts[rank] if spec.hosts else "node1"
    return {
        "kind": "header",
        "schema_version": 1,
        "rank": rank,
        "size": spec.size,
        "local_rank": rank,
        "local_size": spec.size,
        "pid": 1000 + rank,
        "wall_ns": WALL_OF_CLOCK_ZERO_NS,
        "monotonic_ns": clock(0),
        "device": "cpu",
        "affinity": [rank],
        "num_threads": spec.num_threads[rank] if spec.num_threads else 1,
        "versions": {"python": "3.11.2", "torch": "2.13.0", "horovod": "0.28.1"},
        "host": host_of(host),
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
    phases.append(["optimizer", offset, length["blocked"] + length["optimizer"]])
    line = {
        "kind": "step",
        "segment": segment.id,
        "step": step,
        "warmup": step < segment.num_warmup_batches,
        "start_ns": start_ns,
        "dur_ns": sum(length.values()),
        "samples": segment.batch_size,
        "phases": phases,
        "ready": _ready(segment, rank, step, length),
        "blocked": [[offset, length["blocked"]]] if length["blocked"] else [],
    }
    if segment.loss is not None:
        num_steps = segment.num_warmup_batches + segment.num_steps
        line["loss"] = float(np.broadcast_to(np.asarray(segment.loss), num_steps)[step])
    return line


def _ready(segment: SegmentSpec, rank: int, step: int, length: Mapping[str, int]) -> list[int]:
    if segment.ready_ms is not None:
        return [round(1e6 * ready) for ready in np.asarray(segment.ready_ms)[rank, step]]
    count, before = len(segment.tensors), length["data"] + length["forward"]
    # Backward produces the gradients of the last layers first.
    return [before + length["backward"] * (count - i) // count for i in range(count)]


def timeline_text(segment: SegmentSpec, size: int, first_step_ns: int) -> str:
    """Horovod's file for the steps after warm-up: its tensors as one batch, while rank 0 waits."""
    lengths = {part: values[0] for part, values in segment.lengths_ns(size).items()}
    ends = first_step_ns + np.cumsum(np.sum(list(lengths.values()), axis=0))
    pids = {name: pid for pid, name in enumerate(segment.tensors, start=1)}
    text = '[\n{"name": "process_name", "ph": "M", "pid": 0, "args": '
    text += f'{{"start_time_since_epoch_in_micros":{WALL_OF_CLOCK_ZERO_NS // 1000}}}}},\n'
    for name, pid in pids.items():
        text += (
            f'{{"name": "process_name", "ph": "M", "pid": {pid}, "args": {{"name": "{name}"}}}},\n'
        )
    events = []
    for step in range(segment.num_warmup_batches, len(ends)):
        after = int(lengths["optimizer"][step] + lengths["other"][step])
        stop_us = (int(ends[step]) - after) // 1000
        start_us = stop_us - int(lengths["blocked"][step]) // 1000
        events += [_event("B", "NEGOTIATE_ALLREDUCE", start_us, pid) for pid in pids.values()]
        events += [_event("E", None, start_us, pid) for pid in pids.values()]
        events += [_event("B", "ALLREDUCE", start_us, pid) for pid in pids.values()]
        events += [_event("B", "GLOO_ALLREDUCE", start_us, pid) for pid in pids.values()]
        events += [_event("E", None, stop_us, pid) for pid in pids.values()]
        for name, pid in pids.items():
            args = {"dtype": "float32", "shape": f"[{segment.tensors[name] // 4}]"}
            events.append(_event("E", None, stop_us, pid) | {"args": args})
    return text + ",".join(json.dumps(event) for event in events) + "]"


def _event(ph: str, name: str | None, ts: int, pid: int) -> dict[str, Any]:
    return {"ph": ph} | ({"name": name} if name else {}) | {"ts": ts, "pid": pid}
