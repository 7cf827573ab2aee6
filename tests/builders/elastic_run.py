"""A synthetic run directory of an elastic job, whose workers come and go at known times.

    write_elastic_run(folder, [
        SessionSpec(workers=[A], num_steps=20, why="hosts-updated"),
        SessionSpec(workers=[A, B], num_steps=30),
    ])

Clocks of all workers agree. A session begins where the one before ended plus the pieces of a reset.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hvdprof.rundir.layout import RunPaths, session_id
from hvdprof.rundir.manifest import Manifest, PassRecord, SegmentRecord, WorkerEnd
from hvdprof.rundir.plan import Segment
from tests.builders.recorder_lines import host_of

LAUNCH = "01-elastic-throughput-r1"
MS = 1_000_000
PIECES_MS = {"notice": 3, "shutdown": 20, "rendezvous": 500, "sync": 40, "begin": 7}


class WorkerSpec(NamedTuple):
    """A process: where it runs, and the rank it was started with."""

    host: str
    slot: int
    pid: int
    launch_rank: int


@dataclass(kw_only=True)
class SessionSpec:
    """A session; workers in the order of their ranks.

    ``why`` holds for all workers but those in ``whys``, by process; an empty one was killed.
    """

    workers: Sequence[WorkerSpec]
    num_steps: int = 30
    step_ms: float = 10.0
    why: str = "finished"
    whys: Mapping[int, str] = field(default_factory=dict)
    num_committed: int = 0
    started_ms_before: float = 400.0


def write_elastic_run(
    folder: Path, sessions: Sequence[SessionSpec], ends: Sequence[WorkerEnd] = ()
) -> Path:
    """Write the run directory of one elastic launch and return it."""
    launch = _record(LAUNCH, 0, 1, [])
    launch.worker_ends = list(ends)
    records = [launch]
    now_ns, known = 5_000 * MS, set[int]()
    for number, one in enumerate(sessions, start=1):
        records.append(_record(session_id(LAUNCH, number), number, len(one.workers), [_segment()]))
        now_ns = _write_session(folder, number, one, now_ns, known)
        known |= {worker.pid for worker in one.workers}
    Manifest(
        schema_version=1,
        hvdprof_version="0.0.0",
        name="synthetic",
        created_at="2026-11-20T22:48:41+00:00",
        command=["hvdprof", "run"],
        settings={"num_threads": 1},
        environment={},
        versions={},
        hosts=[host_of("node1")],
        git=None,
        passes=records,
        skipped=[],
        status="done",
    ).write(RunPaths(folder))
    return folder


def _record(pass_id: str, session: int, size: int, segments: list[Segment]) -> PassRecord:
    return PassRecord(
        id=pass_id,
        mode="throughput",
        size=size,
        repeat=1,
        controller="gloo",
        oversubscribed=False,
        pinned=True,
        segments=[SegmentRecord(segment=one, status="done") for one in segments],
        status="done",
        session=session,
    )


def _segment() -> Segment:
    return Segment(
        id="main",
        engine="horovod",
        model="train",
        compression="none",
        reduction="average",
        batch_size=8,
        image_size=0,
        num_warmup_batches=2,
        num_steps=None,
        max_seconds=None,
        timeline=False,
    )


def _write_session(
    folder: Path, number: int, one: SessionSpec, before_ns: int, known: set[int]
) -> int:
    """The end of its last step; ``before_ns`` is that of the session before."""
    paths = RunPaths(folder).of_pass(LAUNCH).session(number)
    paths.recorder_folder.mkdir(parents=True)
    at, now_ns = {}, before_ns
    for piece, length_ms in PIECES_MS.items():
        now_ns += length_ms * MS
        at[piece] = now_ns
    for rank, worker in enumerate(one.workers):
        is_new = worker.pid not in known
        lines = list(_lines(one, rank, at, is_new=is_new))
        lines[2]["number"] = number
        text = "".join(json.dumps(line) + "\n" for line in lines)
        paths.recorder_file(rank).write_text(text, encoding="utf-8")
    return now_ns + round(one.num_steps * one.step_ms * MS)


def _lines(one: SessionSpec, rank: int, at: Mapping[str, int], *, is_new: bool) -> Any:
    worker, begin_ns = one.workers[rank], at["begin"]
    yield {
        "kind": "header",
        "schema_version": 1,
        "rank": rank,
        "size": len(one.workers),
        "local_rank": worker.slot,
        "pid": worker.pid,
        "wall_ns": begin_ns,
        "monotonic_ns": at["sync"],
        "device": "cpu",
        "affinity": [rank],
        "host": host_of("node1"),
    }
    yield {
        "kind": "clock",
        "when": "start",
        "method": "same-clock",
        "monotonic_ns": at["sync"],
        "offset_ns": 0,
        "error_ns": 0,
        "min_rtt_ns": 0,
        "num_exchanges": 0,
    }
    yield {
        "kind": "session",
        "number": 0,
        "host": worker.host,
        "slot": worker.slot,
        "launch_rank": worker.launch_rank,
        "started_ns": at["rendezvous"] - round(one.started_ms_before * MS),
        "left_ns": None if is_new else at["notice"],
        "shut_down_ns": None if is_new else at["shutdown"],
        "initialised_ns": at["rendezvous"],
        "entered_ns": at["sync"],
    }
    tensors = [{"name": "allreduce.weight", "size_bytes": 4000, "sent_bytes": 4000}]
    yield {"kind": "segment", "id": "main", "monotonic_ns": begin_ns, "tensors": tensors}
    length_ns = round(one.step_ms * MS)
    for step in range(one.num_steps):
        yield {
            "kind": "step",
            "segment": "main",
            "step": step,
            "warmup": step < 2,
            "start_ns": begin_ns + step * length_ns,
            "dur_ns": length_ns,
            "samples": 8,
            "phases": [
                ["forward", 0, length_ns * 3 // 10],
                ["backward", length_ns * 3 // 10, length_ns // 2],
                ["optimizer", length_ns * 8 // 10, length_ns // 5],
            ],
            "ready": [length_ns * 7 // 10],
            "blocked": [[length_ns * 8 // 10, length_ns // 10]],
        }
    why = one.whys.get(worker.pid, one.why)
    if why:
        end_ns = begin_ns + one.num_steps * length_ns
        yield {"kind": "segment_end", "id": "main", "monotonic_ns": end_ns}
        yield {
            "kind": "session_end",
            "why": why,
            "monotonic_ns": end_ns,
            "num_steps": one.num_steps,
            "num_committed": one.num_committed,
        }
        yield {"kind": "end", "monotonic_ns": end_ns}
