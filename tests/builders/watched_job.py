"""What a watcher knows of a job, stated directly: snapshots and events."""

import math
from typing import Any

from hvdprof.live.snapshot import Event, RankView, Snapshot
from hvdprof.rundir.recording.stall_format import EventKind, EventState

HOSTILE = 'a"b\\c\nd\x1b[31m\udc80' + "x" * 300


def snapshot(**changes: Any) -> Snapshot:
    """Four ranks on two hosts of which rank 3 is late in its data phase and named."""
    values: dict[str, Any] = {
        "job": "resnet",
        "time_s": 1_795_800_000.25,
        "num_ranks": 4,
        "step": 120,
        "step_s": 0.1,
        "samples_per_s": 2560.0,
        "first_samples_per_s": 3200.0,
        "lateness_cost_ratio": 0.2,
        "exposed_communication_ratio": math.nan,
        "input_wait_s": 0.01,
        "costs_s": {"straggler": 0.02, "input": 0.001},
        "memory_bytes": {rank: {"rss": 2e9} for rank in range(3)}
        | {3: {"rss": 3e9, "torch_allocated": 5e9}},
        "available_bytes": 48e9,
        "ranks": [rank_view(rank, late_s=0.0 if rank < 3 else 0.02) for rank in range(4)],
        "events_total": {EventKind.STRAGGLER: 1},
        "running": [event()],
    }
    return Snapshot(**{**values, **changes})


def rank_view(rank: int, late_s: float = 0.0, **changes: Any) -> RankView:
    """A rank; one that is late is named, late in its data phase, and costs all of that."""
    is_late = late_s > 0
    values: dict[str, Any] = {
        "host": f"node{rank // 2}",
        "cost_s": max(late_s, 0.0),
        "phase": "data" if is_late else "",
        "is_named": is_late,
    }
    return RankView(rank, late_s=late_s, **{**values, **changes})


def event(**changes: Any) -> Event:
    """Rank 3 is named as a straggler."""
    values: dict[str, Any] = {
        "number": 1,
        "kind": EventKind.STRAGGLER,
        "state": EventState.BEGUN,
        "time_s": 1_795_800_000.0,
        "since_s": 1_795_799_970.0,
        "segment": "0",
        "step": 118,
        "ranks": (3,),
        "host": "node1",
        "phase": "data",
        "cost_s": 0.02,
        "step_s": 0.1,
        "place": "transforms.py:41",
        "text": "straggler: rank 3 on node1, data phase, 20.0 ms per step",
    }
    return Event(**{**values, **changes})
