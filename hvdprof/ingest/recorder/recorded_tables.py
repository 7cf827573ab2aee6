"""The recorder files of one pass to blocks of RANKS, STEPS, GRADIENTS, ARRIVALS, WAITS, EVENTS.

Tested by tests/ingest/test_load_run.py.
"""

import numpy as np
import pandas as pd

from hvdprof.ingest.recorder.recorder_file import RecorderFile, SegmentRecording
from hvdprof.ingest.recorder.session_rows import Alignment
from hvdprof.ingest.recorder.step_phases import SPREAD_PARTS, UNKNOWN, UNSEEN
from hvdprof.ingest.storage.blocks import Block
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.model.schema import dtype_of_names, names


def rank_block(
    pass_id: str, rank: int, file: RecorderFile, alignment: Alignment, last_ns: int
) -> Block:
    """The row of a rank; ``last_ns`` is the last recorded time of its clock."""
    header = file.header
    return {
        "pass_id": pass_id,
        "rank": rank,
        "local_rank": file.header_number("local_rank", rank),
        "hostname": file.host_fact("hostname") or "",
        "device": str(header.get("device", "")),
        "gpu": str(header.get("gpu") or ""),
        "num_gpus": file.header_number("num_gpus", 0),
        "backend": str(header.get("backend") or ""),
        "engine": str(header.get("engine", "")),
        "pid": file.header_number("pid", -1),
        "num_threads": file.header_number("num_threads", -1),
        "num_affinity_cores": _count(header.get("affinity")),
        "clock_method": alignment.method,
        "clock_offset_ns": alignment.offset_ns,
        "clock_drift_ppm": alignment.drift * 1e6,
        "clock_error_ns": int(alignment.errors_ns(np.asarray([last_ns]))[0]),
        "ended": file.ended,
    }


def step_block(pass_id: str, rank: int, segment: SegmentRecording, alignment: Alignment) -> Block:
    """The steps of one rank in one segment."""
    table = segment.step_table()
    counts = segment.steps_of_rows()
    start_ns = table[:, 2]
    dur_ns = table[:, 3]
    if segment.counts:
        # Over a window the clocks of two hosts part: its end is aligned as its begin is.
        end_ns = alignment.aligned_ns(start_ns + dur_ns * counts)
        dur_ns = np.rint((end_ns - alignment.aligned_ns(start_ns)) / counts).astype(np.int64)
    parts = {f"{part}_ns": table[:, 5 + i] for i, part in enumerate(RECORDED_PARTS)}
    blocked = parts["blocked_ns"]
    return {
        "pass_id": pass_id,
        "segment": segment.id,
        "rank": np.full(len(table), rank),
        "step": table[:, 0],
        "warmup": table[:, 1].astype(bool),
        "start_ns": alignment.aligned_ns(start_ns),
        "dur_ns": dur_ns,
        "num_steps": counts,
        "samples": table[:, 4],
        **parts,
        "blocked_ns": pd.arrays.IntegerArray(blocked.copy(), mask=blocked == UNSEEN),
        "loss": np.asarray(segment.losses),
        "evaluation": np.asarray(segment.evaluation_ns) >= 0,
        "clock_error_ns": alignment.errors_ns(start_ns),
    }


def evaluation_block(
    pass_id: str, rank: int, segment: SegmentRecording, alignment: Alignment
) -> Block | None:
    """The evaluations of one rank in one segment; ``None`` without any."""
    step, start_ns, dur_ns, rest_ns, *blocked = segment.evaluation_table().T
    if not len(step):
        return None
    blocked_ns, rest_blocked_ns = (
        pd.arrays.IntegerArray(column.copy(), mask=column == UNSEEN) for column in blocked
    )
    is_last = np.zeros(len(step), dtype=bool)
    is_last[-1] = segment.last_evaluation is not None
    return {
        "pass_id": pass_id,
        "segment": segment.id,
        "rank": np.full(len(step), rank),
        "step": step,
        "start_ns": alignment.aligned_ns(start_ns),
        "dur_ns": dur_ns,
        "blocked_ns": blocked_ns,
        "rest_ns": rest_ns,
        "rest_blocked_ns": rest_blocked_ns,
        "after_last": is_last,
        "clock_error_ns": alignment.errors_ns(start_ns),
    }


def window_block(pass_id: str, rank: int, segment: SegmentRecording, alignment: Alignment) -> Block:
    """The windows of a light recording of one rank in one segment, as it wrote them."""
    windows = segment.windows
    table = windows.table()
    start_ns, end_ns = table["start_ns"], table["end_ns"]
    blocked = table["longest_blocked_ns"]
    phases = pd.Index(list(windows.phases), dtype=str)
    parts = {
        f"{part}_{what}": table[f"{part}_{what}"]
        for part in SPREAD_PARTS
        for what in ("sum_ns", "median_ns", "p95_ns", "max_ns")
        if part != "blocked"
    }
    is_unseen = table["is_seen"] == 0
    waited = {
        f"blocked_{what}": pd.arrays.IntegerArray(table[f"blocked_{what}"].copy(), mask=is_unseen)
        for what in ("sum_ns", "median_ns", "p95_ns", "max_ns")
    }
    aligned_ns = alignment.aligned_ns(start_ns)
    return {
        "pass_id": pass_id,
        "segment": segment.id,
        "rank": np.full(len(windows), rank),
        "step": table["step"],
        "last_step": table["last_step"],
        "num_steps": table["num_steps"],
        "warmup": table["warmup"].astype(bool),
        "start_ns": aligned_ns,
        "dur_ns": alignment.aligned_ns(end_ns) - aligned_ns,
        "wall_ns": table["wall_ns"],
        "samples": table["samples"],
        **{f"step_{name}": table[name] for name in ("sum_ns", "median_ns", "p95_ns", "max_ns")},
        **parts,
        **waited,
        "longest_step": table["longest_step"],
        "longest_phase": pd.Categorical.from_codes(table["longest_phase"], categories=phases),
        "longest_phase_ns": table["longest_phase_ns"],
        "longest_blocked_ns": pd.arrays.IntegerArray(blocked.copy(), mask=blocked == UNKNOWN),
        "loss": np.asarray(windows.losses),
        "clock_error_ns": alignment.errors_ns(end_ns),
    }


def gradient_block(pass_id: str, segment: SegmentRecording) -> Block | None:
    """What a rank sends of each gradient in one segment; ``None`` where none is watched."""
    if not segment.tensors:
        return None
    return {
        "pass_id": pass_id,
        "segment": segment.id,
        "tensor": names(segment.tensors),
        "size_bytes": np.asarray(segment.size_of, dtype=np.int64),
        "sent_bytes": np.asarray(segment.sent_of, dtype=np.int64),
    }


def arrival_block(
    pass_id: str, rank: int, segment: SegmentRecording, alignment: Alignment
) -> Block | None:
    """When each gradient was ready on one rank in one segment; ``None`` where none was."""
    if not segment.tensors:
        return None
    offsets = segment.ready_table()
    row, tensor = np.nonzero(offsets >= 0)
    if not len(row):
        return None
    steps = segment.step_table()[np.asarray(segment.ready_row, dtype=np.int64)]
    ready_ns = steps[row, 2] + offsets[row, tensor]
    known = {name: code for code, name in enumerate(dict.fromkeys(segment.tensors))}
    codes = np.array([known[name] for name in segment.tensors])
    return {
        "pass_id": pass_id,
        "segment": segment.id,
        "rank": np.full(len(row), rank),
        "step": steps[row, 0],
        "tensor": pd.Categorical.from_codes(codes[tensor], dtype=dtype_of_names(tuple(known))),
        "ready_ns": alignment.aligned_ns(ready_ns),
        "clock_error_ns": alignment.errors_ns(ready_ns),
    }


def part_block(
    pass_id: str, rank: int, segment: SegmentRecording, alignment: Alignment
) -> Block | None:
    """Phases and blocked time of one rank in one segment, as EVENTS; ``None`` without any."""
    if not segment.parts:
        return None
    row, offset_ns, dur_ns = segment.part_table().T
    steps = segment.step_table()[row]
    start_ns = steps[:, 2] + offset_ns
    return {
        "pass_id": pass_id,
        "segment": segment.id,
        "source": "recorder",
        "rank": np.full(len(row), rank),
        "step": steps[:, 0],
        "phase": "part",
        "activity": pd.Categorical.from_codes(
            np.asarray(segment.part_codes), dtype=dtype_of_names(tuple(segment.part_names))
        ),
        "collective": "",
        "tensor": "",
        "occurrence": np.zeros(len(row), dtype=np.int64),
        "fusion_id": np.full(len(row), -1),
        "start_ns": alignment.aligned_ns(start_ns),
        "dur_ns": dur_ns,
        "size_bytes": pd.arrays.IntegerArray(
            np.zeros_like(row), mask=np.ones(len(row), dtype=bool)
        ),
        "clock_error_ns": alignment.errors_ns(start_ns),
    }


def wait_block(
    pass_id: str, rank: int, segment: SegmentRecording, alignment: Alignment
) -> Block | None:
    """The waits of a known kind of one rank in one segment; ``None`` without any."""
    table = segment.wait_table()
    # What lies before the begin belongs to an evaluation that was taken from the step.
    is_inside = table[:, 1] >= 0
    if not is_inside.any():
        return None
    row, offset_ns, dur_ns, submitted, num_ranks = table[is_inside].T
    steps = segment.step_table()[row]
    start_ns = steps[:, 2] + offset_ns
    unknown = submitted == UNSEEN
    submitted_ns = alignment.aligned_ns(steps[:, 2] + np.where(unknown, offset_ns, submitted))
    first = np.flatnonzero(np.diff(row, prepend=-1))
    number = np.arange(len(row)) - np.repeat(first, np.diff(first, append=len(row)))
    return {
        "pass_id": pass_id,
        "segment": segment.id,
        "rank": np.full(len(row), rank),
        "step": steps[:, 0],
        "number": number,
        "kind": pd.Categorical.from_codes(
            np.asarray(segment.wait_codes)[is_inside],
            dtype=dtype_of_names(tuple(segment.wait_kinds)),
        ),
        "num_ranks": num_ranks,
        "submitted_ns": pd.arrays.IntegerArray(submitted_ns, mask=unknown),
        "start_ns": alignment.aligned_ns(start_ns),
        "dur_ns": dur_ns,
        "clock_error_ns": alignment.errors_ns(start_ns),
    }


def _count(value: object) -> int:
    return len(value) if isinstance(value, list) else 0
