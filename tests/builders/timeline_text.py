"""A Horovod timeline of a segment of a synthetic run, in the layout of Horovod 0.28.1."""

import json
from typing import Any

import numpy as np

from tests.builders.run_spec import WALL_OF_CLOCK_ZERO_NS, SegmentSpec


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
        after = int(lengths["optimizer"][step] + lengths["outside"][step])
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
