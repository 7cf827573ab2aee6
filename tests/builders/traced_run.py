"""A run with recordings of one traced pass, small enough to be read line by line."""

from typing import Any

import pandas as pd

from hvdprof.model.run import Run
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, RANKS, SEGMENTS, STEPS
from tests.builders.finished_analysis import manifest, pass_record, run, segment

MS = 1_000_000
PASS_ID = "04-np2-trace-r1"
SEGMENT_ID = "resnet18-none-average"
START_NS = 5_000 * MS


def segment_row(**values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "pass_id": PASS_ID,
        "segment": SEGMENT_ID,
        "mode": "trace",
        "repeat": 1,
        "engine": "horovod",
        "model": "resnet18",
        "size": 2,
        "compression": "none",
        "reduction": "average",
        "batch_size": 16,
        "image_size": 32,
        "status": "done",
        "num_ranks_recorded": 2,
        "num_tensors": 2,
        "gradient_bytes": 600,
        "sent_bytes": 600,
        "oversubscribed": False,
        "pinned": True,
        "busy_cores": 2.0,
        "startup_ns": 4e9,
    }
    return row | values


def step_row(rank: int, step: int, **values: Any) -> dict[str, Any]:
    """A step of 20 ms: 1 data, 5 forward, 8 backward, 4 blocked, 1 optimizer, 1 other."""
    row: dict[str, Any] = {
        "pass_id": PASS_ID,
        "segment": SEGMENT_ID,
        "rank": rank,
        "step": step,
        "warmup": step == 0,
        "start_ns": START_NS + step * 20 * MS,
        "dur_ns": 20 * MS,
        "data_ns": 1 * MS,
        "forward_ns": 5 * MS,
        "backward_ns": 8 * MS,
        "blocked_ns": 4 * MS,
        "before_update_ns": 0,
        "optimizer_ns": 1 * MS,
        "outside_ns": 1 * MS,
        "samples": 16,
        "loss": 2.5 - step,
        "num_steps": 1,
        "evaluation": False,
        "clock_error_ns": 0,
    }
    return row | values


def arrival_row(rank: int, step: int, tensor: str, after_ms: float) -> dict[str, Any]:
    return {
        "pass_id": PASS_ID,
        "segment": SEGMENT_ID,
        "rank": rank,
        "step": step,
        "tensor": tensor,
        "ready_ns": START_NS + step * 20 * MS + round(after_ms * MS),
        "clock_error_ns": 0,
    }


def event_row(
    phase: str, activity: str, after_ms: float, dur_ms: float, **values: Any
) -> dict[str, Any]:
    """A row of EVENTS from Horovod's timeline in step 1; ``dur_ms`` -1 has no end."""
    row: dict[str, Any] = {
        "pass_id": PASS_ID,
        "segment": SEGMENT_ID,
        "source": "timeline",
        "rank": 0,
        "step": 1,
        "phase": phase,
        "activity": activity,
        "collective": "ALLREDUCE",
        "tensor": "allreduce.fc.bias",
        "occurrence": 0,
        "fusion_id": -1,
        "start_ns": START_NS + 20 * MS + round(after_ms * MS),
        "dur_ns": -1 if dur_ms == -1 else round(dur_ms * MS),
        "size_bytes": pd.NA,
        "clock_error_ns": 0,
    }
    return row | values


def part_rows(rank: int, step: int) -> list[dict[str, Any]]:
    """The parts of ``step_row``, with 1 ms outside of them between data and forward."""
    parts = [("data", 0, 1), ("forward", 2, 5), ("backward", 7, 8), ("optimizer", 15, 5)]
    shift = (step - 1) * 20
    return [
        event_row(
            "part",
            name,
            shift + at,
            dur,
            source="recorder",
            rank=rank,
            step=step,
            tensor="",
            collective="",
        )
        for name, at, dur in [*parts, ("blocked", 15, 4)]
    ]


def fused_events() -> list[dict[str, Any]]:
    """Two tensors that negotiate, wait for rank 1, and are reduced together once."""
    bias: dict[str, Any] = {"tensor": "allreduce.fc.bias", "fusion_id": 7}
    weight: dict[str, Any] = {"tensor": "allreduce.fc.weight", "fusion_id": 7}
    return [
        event_row("negotiation", "NEGOTIATE_ALLREDUCE", 8.0, 6.5),
        event_row("negotiation", "NEGOTIATE_ALLREDUCE", 9.0, 5.5, tensor="allreduce.fc.weight"),
        event_row("mark", "0", 8.0, 0),
        event_row("mark", "1", 14.5, 0),
        event_row("operation", "ALLREDUCE", 14.6, 3.2, size_bytes=200, **bias),
        event_row("operation", "ALLREDUCE", 14.601, 3.2, size_bytes=400, **weight),
        event_row("activity", "MEMCPY_IN_FUSION_BUFFER", 14.6, 0.4, **bias),
        event_row("activity", "MEMCPY_IN_FUSION_BUFFER", 14.6, 0.4, **weight),
        event_row("activity", "GLOO_ALLREDUCE", 15.0, 2.5, **bias),
        event_row("activity", "GLOO_ALLREDUCE", 15.0, 2.5, **weight),
        event_row("mark", "CYCLE_START", 14.55, 0, tensor="", collective=""),
    ]


def rank_row(rank: int, hostname: str, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "pass_id": PASS_ID,
        "rank": rank,
        "local_rank": rank,
        "hostname": hostname,
        "device": "cpu",
        "gpu": "",
        "num_gpus": 0,
        "backend": "",
        "engine": "",
        "pid": 100 + rank,
        "num_threads": 1,
        "num_affinity_cores": 1,
        "clock_method": "same-clock",
        "clock_offset_ns": 0,
        "clock_drift_ppm": 0.0,
        "clock_error_ns": 0,
        "ended": True,
    }
    return row | values


def traced_run(**tables: Any) -> Run:
    """Two ranks, two steps each, one fused allreduce; ``tables`` replace those of the run."""
    arrivals = [
        arrival_row(rank, step, tensor, after_ms)
        for rank in range(2)
        for step in range(2)
        for tensor, after_ms in (("allreduce.fc.bias", 8.0), ("allreduce.fc.weight", 9.0))
    ]
    fields: dict[str, Any] = {
        "manifest": manifest(passes=[pass_record(PASS_ID, [segment(SEGMENT_ID)])]),
        "segments": SEGMENTS.frame([segment_row()]),
        "steps": STEPS.frame([step_row(rank, step) for rank in range(2) for step in range(2)]),
        "arrivals": ARRIVALS.frame(arrivals),
        "events": EVENTS.frame(
            fused_events() + [row for rank in range(2) for row in part_rows(rank, 1)]
        ),
        "ranks": RANKS.frame([rank_row(0, "node1"), rank_row(1, "node2")]),
    }
    return run(**(fields | tables))
