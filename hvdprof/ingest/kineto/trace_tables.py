"""The traces of a job as blocks of the tables that the recorder fills, and of the collectives."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from hvdprof.ingest.kineto.busy_intervals import covered_ns, merged
from hvdprof.ingest.kineto.rank_work import BLOCKED, WorkedStep, worked_steps
from hvdprof.ingest.kineto.trace_set import RankTrace, TraceSet
from hvdprof.ingest.storage.blocks import Block
from hvdprof.model.arrays import Int64s
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.model.schema import Table, names
from hvdprof.model.tables.rank_collective_tables import NO_MATCH, RANK_COLLECTIVES
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, RANKS, STEPS, WAITS
from hvdprof.model.tables.timeline_tables import EXECUTIONS

SOURCE = "kineto"
LEAST_STEPS_WITH_WARMUP = 3
"""From so many steps on, the first one is warm-up: the profiler itself starts in it."""

Origin = tuple[str, str]
"""The pass and the segment."""


def trace_blocks(found: TraceSet, origin: Origin, engine: str) -> Iterator[tuple[Table, Block]]:
    """Blocks of RANKS, STEPS, EVENTS, WAITS, ARRIVALS, RANK_COLLECTIVES and EXECUTIONS.

    Args:
        found: The traces.
        origin: The pass and the segment that they are of.
        engine: What reduces the gradients; may be ``unknown``.
    """
    works = {rank: worked_steps(one) for rank, one in found.ranks.items()}
    places = _arrival_names(found, works) if found.is_complete and len(found.ranks) > 1 else {}
    shortest = _shortest(found)
    for number, one in enumerate(found.ranks.values()):
        common = {"pass_id": origin[0], "segment": origin[1]}
        steps = works[one.rank]
        yield RANKS, {"pass_id": origin[0], "engine": engine, **_rank(one)}
        if steps:
            yield STEPS, {**common, **_steps(one, steps)}
            if any(step.pieces or step.blocked.size for step in steps):
                yield EVENTS, {**common, **_pieces(one, steps)}
            if any(step.waits for step in steps):
                yield WAITS, {**common, **_waits(one, steps)}
        if one.calls:
            ids = found.matching.ids[one.rank]
            yield RANK_COLLECTIVES, {**common, **_calls(one, ids, steps)}
            arrivals = _arrivals(one, ids, places)
            if arrivals is not None:
                yield ARRIVALS, {**common, **arrivals}
            if number == 0 and any(call.end_ns is not None for call in one.calls):
                executions, events = _executions(one, ids, shortest)
                yield EXECUTIONS, {**common, **executions}
                yield EVENTS, {**common, **events}


def _rank(one: RankTrace) -> Block:
    return {
        "rank": one.rank,
        "local_rank": one.rank,
        "hostname": one.file.host,
        "device": "cuda" if one.file.on_gpu else "cpu",
        "gpu": "",
        "num_gpus": 0,
        "backend": one.file.backend,
        "pid": -1,
        "num_threads": -1,
        "num_affinity_cores": 0,
        "clock_method": one.clock_method,
        "clock_offset_ns": one.offset_ns,
        "clock_drift_ppm": 0.0,
        "clock_error_ns": one.clock_error_ns,
        "ended": True,
    }


def _steps(one: RankTrace, steps: list[WorkedStep]) -> Block:
    start, end = (
        np.array([getattr(step, name) for step in steps], dtype=np.int64)
        for name in ("start_ns", "end_ns")
    )
    warmup = np.zeros(len(steps), dtype=bool)
    warmup[0] = len(steps) >= LEAST_STEPS_WITH_WARMUP
    parts = {
        f"{part}_ns": np.array([step.parts[part] for step in steps], dtype=np.int64)
        for part in RECORDED_PARTS
    }
    return {
        "rank": np.full(len(steps), one.rank),
        "step": np.array([step.number for step in steps], dtype=np.int64),
        "warmup": warmup,
        "start_ns": start + one.offset_ns,
        "dur_ns": end - start,
        **parts,
        "blocked_ns": pd.arrays.IntegerArray(
            parts["blocked_ns"].copy(), np.full(len(steps), one.hides_waits)
        ),
        "samples": np.ones(len(steps), dtype=np.int64),
        "loss": np.full(len(steps), np.nan),
        "num_steps": np.ones(len(steps), dtype=np.int64),
        "evaluation": np.zeros(len(steps), dtype=bool),
        "clock_error_ns": np.full(len(steps), one.clock_error_ns),
    }


def _pieces(one: RankTrace, steps: list[WorkedStep]) -> Block:
    activities: list[str] = []
    times: list[Int64s] = []
    for step in steps:
        activities += [name for name, _, _ in step.pieces] + [BLOCKED] * step.blocked.shape[1]
        own = np.array([piece[1:] for piece in step.pieces], dtype=np.int64).reshape(-1, 2)
        times += [own.T, step.blocked]
    start, end = np.concatenate(times, axis=1)
    lengths = [len(step.pieces) + step.blocked.shape[1] for step in steps]
    return {
        "source": "recorder",
        "rank": np.full(len(start), one.rank),
        "step": np.repeat(np.array([step.number for step in steps], dtype=np.int64), lengths),
        "phase": "part",
        "activity": names(activities),
        "collective": "",
        "tensor": "",
        "occurrence": np.zeros(len(start), dtype=np.int64),
        "fusion_id": np.full(len(start), -1),
        "start_ns": start + one.offset_ns,
        "dur_ns": end - start,
        "size_bytes": pd.array([None] * len(start), dtype="Int64"),
        "clock_error_ns": np.full(len(start), one.clock_error_ns),
    }


def _waits(one: RankTrace, steps: list[WorkedStep]) -> Block:
    rows = [(step.number, number, wait) for step in steps for number, wait in enumerate(step.waits)]
    waits = [wait for _, _, wait in rows]
    submitted, start, end = (
        np.array([getattr(wait, name) for wait in waits], dtype=np.int64)
        for name in ("submitted_ns", "start_ns", "end_ns")
    )
    return {
        "rank": np.full(len(rows), one.rank),
        "step": np.array([step for step, _, _ in rows], dtype=np.int64),
        "number": np.array([number for _, number, _ in rows], dtype=np.int64),
        "kind": names([wait.kind for wait in waits]),
        "num_ranks": np.array([wait.num_ranks for wait in waits], dtype=np.int64),
        "submitted_ns": pd.array(submitted + one.offset_ns, dtype="Int64"),
        "start_ns": start + one.offset_ns,
        "dur_ns": end - start,
        "clock_error_ns": np.full(len(rows), one.clock_error_ns),
    }


def _calls(one: RankTrace, ids: Int64s, steps: list[WorkedStep]) -> Block:
    calls = one.calls
    offset = one.offset_ns

    def times(name: str) -> "pd.api.extensions.ExtensionArray":
        values = [getattr(call, name) for call in calls]
        return pd.array([None if at is None else at + offset for at in values], dtype="Int64")

    return {
        "source": SOURCE,
        "rank": np.full(len(calls), one.rank),
        "step": np.array(one.step_of, dtype=np.int64),
        "group": names([call.group for call in calls]),
        "group_size": pd.array([call.group_size for call in calls], dtype="Int64"),
        "seq": pd.array([call.seq for call in calls], dtype="Int64"),
        "match_id": ids,
        "collective": names([call.collective for call in calls]),
        "name": names([call.name for call in calls]),
        "dtype": names([call.dtype for call in calls]),
        "size_bytes": pd.array([call.size_bytes for call in calls], dtype="Int64"),
        "submitted_ns": times("submitted_ns"),
        "start_ns": times("start_ns"),
        "arrival_ns": np.array([call.arrival_ns + offset for call in calls], dtype=np.int64),
        "end_ns": times("end_ns"),
        "exposed_ns": _exposed(one, steps),
        "state": "",
        "clock_error_ns": np.full(len(calls), one.clock_error_ns),
    }


def _exposed(one: RankTrace, steps: list[WorkedStep]) -> "pd.api.extensions.ExtensionArray":
    """The part of each call in which the rank did nothing else."""
    known = np.array([call.end_ns is not None for call in one.calls])
    spans = np.array(
        [(call.arrival_ns, call.end_ns or call.arrival_ns) for call in one.calls], dtype=np.int64
    )
    if one.file.on_gpu:
        _, starts, ends = one.file.launches
        computing = covered_ns(spans[:, 0], spans[:, 1], merged(starts, ends))
        exposed = spans[:, 1] - spans[:, 0] - computing
    else:
        blocked = [np.empty((2, 0), np.int64), *(step.blocked for step in steps)]
        exposed = covered_ns(spans[:, 0], spans[:, 1], merged(*np.concatenate(blocked, axis=1)))
        known &= (np.array(one.step_of) >= 0) & (not one.hides_waits)
    return pd.arrays.IntegerArray(exposed, ~known)


def _arrival_names(found: TraceSet, works: Mapping[int, list[WorkedStep]]) -> dict[int, str]:
    """By collective that holds up every rank, its name and place within its step.

    One that ends after the last wait of a step is hidden behind work: the rank continues before the
    others have arrived, so that it says nothing of their clocks.
    """
    num_ranks: dict[int, int] = {}
    for rank, one in found.ranks.items():
        released = {step.number: step.released_ns for step in works[rank]}
        for number, step, call in zip(
            found.matching.ids[rank].tolist(), one.step_of, one.calls, strict=True
        ):
            is_over = call.end_ns is not None and call.end_ns <= released.get(step, 0)
            if number != NO_MATCH and is_over:
                num_ranks[number] = num_ranks.get(number, 0) + 1
    first = next(iter(found.ranks.values()))
    names_of: dict[int, str] = {}
    seen: dict[tuple[int, str], int] = {}
    ids = found.matching.ids[first.rank].tolist()
    for number, step, call in zip(ids, first.step_of, first.calls, strict=True):
        if number != NO_MATCH and step >= 0 and num_ranks.get(number) == found.size:
            place = seen.get((step, call.name), 0)
            seen[step, call.name] = place + 1
            names_of[number] = f"{call.name} {place}"
    return names_of


def _arrivals(one: RankTrace, ids: Int64s, places: Mapping[int, str]) -> Block | None:
    chosen = [
        (step, places[number], call.arrival_ns + one.offset_ns)
        for number, step, call in zip(ids.tolist(), one.step_of, one.calls, strict=True)
        if number in places and step >= 0
    ]
    if not chosen:
        return None
    steps, tensors, ready = zip(*chosen, strict=True)
    return {
        "rank": np.full(len(chosen), one.rank),
        "step": np.array(steps, dtype=np.int64),
        "tensor": names(tensors),
        "ready_ns": np.array(ready, dtype=np.int64),
        "clock_error_ns": np.full(len(chosen), one.clock_error_ns),
    }


def _shortest(found: TraceSet) -> dict[int, int]:
    """By collective the length of its shortest call, that of the last rank: without its wait."""
    shortest: dict[int, int] = {}
    for rank, one in found.ranks.items():
        for number, call in zip(found.matching.ids[rank].tolist(), one.calls, strict=True):
            if number != NO_MATCH and (length := call.length_ns) is not None:
                shortest[number] = min(shortest.get(number, length), length)
    return shortest


def _executions(one: RankTrace, ids: Int64s, shortest: Mapping[int, int]) -> tuple[Block, Block]:
    """EXECUTIONS of one rank, which stands for all as rank 0 of a timeline does, and its EVENTS."""
    chosen = [
        (call, step, number)
        for call, step, number in zip(one.calls, one.step_of, ids.tolist(), strict=True)
        if call.end_ns is not None
    ]
    calls = [call for call, _, _ in chosen]
    lengths = np.array([call.length_ns for call in calls], dtype=np.int64)
    transfer = np.array(
        [shortest.get(number, call.length_ns) for call, _, number in chosen], dtype=np.int64
    )
    nothing = np.zeros(len(chosen), dtype=np.int64)
    common = {
        "step": np.array([step for _, step, _ in chosen], dtype=np.int64),
        "fusion_id": np.arange(len(chosen)),
        "collective": names([call.collective for call in calls]),
        "size_bytes": pd.array([call.size_bytes for call in calls], dtype="Int64"),
        "start_ns": np.array([call.arrival_ns for call in calls], dtype=np.int64) + one.offset_ns,
        "clock_error_ns": np.full(len(chosen), one.clock_error_ns),
    }
    executions = common | {
        "num_tensors": nothing + 1,
        "dur_ns": pd.array(lengths, dtype="Int64"),
        **dict.fromkeys(("init_ns", "queue_ns", "copy_ns"), nothing),
        "wait_ns": lengths - np.minimum(transfer, lengths),
        "transfer_ns": np.minimum(transfer, lengths),
        "warmup": np.zeros(len(chosen), dtype=bool),
    }
    events = common | {
        "source": "timeline",
        "rank": np.full(len(chosen), one.rank),
        "phase": "operation",
        "activity": names([call.name for call in calls]),
        "tensor": names([call.name for call in calls]),
        "occurrence": pd.Series([call.name for call in calls])
        .groupby([call.name for call in calls])
        .cumcount()
        .to_numpy(dtype=np.int64),
        "dur_ns": lengths,
    }
    return executions, events
