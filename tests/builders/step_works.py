"""Steps of a launch as arrays, simulated with known truth: own work in, coupled ends out."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, STEPS
from hvdprof.model.tables.scaling_tables import JOB_STEPS

MS = 1_000_000
PARTS_MS = {"data": 2.0, "forward": 30.0, "backward": 60.0, "optimizer": 3.0, "before_update": 0.0}

Times = NDArray[np.float64]


def simulated(
    num_steps: int,
    num_ranks: int,
    *,
    extra_ms: Mapping[str, Times | float] | None = None,
    noise: float = 0.02,
    tail_ms: float = 5.0,
    seed: int = 0,
) -> StepWork:
    """A launch of ranks that differ by noise alone, plus ``extra_ms`` [steps, ranks] by phase.

    ``before_update`` in it lies behind the release; ``pause`` is time in no phase, between steps.
    """
    rng = np.random.default_rng(seed)
    shape = (num_steps + 1, num_ranks)
    added = {name: np.zeros(shape) for name in (*PARTS_MS, "outside")}
    for name, extra in (extra_ms or {}).items():
        added[name][1:] = extra
    parts = {
        name: MS * (mean * (1 + noise * rng.normal(size=shape)).clip(0.5) + added[name])
        for name, mean in PARTS_MS.items()
    }
    pause = MS * added["outside"]
    tail = np.full(shape, MS * tail_ms)
    before = parts["data"] + parts["forward"] + parts["backward"] + pause
    after = parts["before_update"] + parts["optimizer"]
    begin, arrived, end = np.zeros(shape), np.zeros(shape), np.zeros(num_ranks)
    for k in range(num_steps + 1):
        begin[k] = end
        arrived[k] = end + before[k]
        end = arrived[k].max() + tail[k] + after[k]
    rows = slice(1, None)
    return StepWork(
        ranks=np.arange(num_ranks),
        steps=np.arange(1, num_steps + 1),
        follows=np.arange(num_steps) > 0,
        begin=begin[rows],
        own_before_sync=before[rows],
        arrived=arrived[rows],
        transfer=tail[rows],
        own_after_release=after[rows],
        parts={**{name: one[rows] for name, one in parts.items()}, "outside": pause[rows]},
        clock_error=np.zeros((num_steps, num_ranks)),
        behind_release=parts["before_update"][rows],
        evaluates=np.zeros((num_steps, num_ranks), dtype=bool),
    )


def skewed(
    work: StepWork, offsets_ns: ArrayLike, drift_ppm: ArrayLike, error_ns: ArrayLike
) -> tuple[StepWork, Times]:
    """A launch as recorded by skewed clocks [ranks], and the ready times of its last gradients.

    ``error_ns`` is the error that the exchange of clocks reports. A rank has its last gradient
    ready 0.1 ms before it blocks.
    """
    off = np.asarray(offsets_ns) + work.arrived * np.asarray(drift_ppm) * 1e-6
    arrived = work.arrived + off
    # Everything of a rank is off by the same; tails begin with the arrival of another rank.
    released = work.arrived.max(axis=1, keepdims=True) + work.transfer + off
    apparent = dataclasses.replace(
        work,
        begin=work.begin + off,
        arrived=arrived,
        transfer=released - arrived.max(axis=1, keepdims=True),
        clock_error=np.broadcast_to(np.asarray(error_ns, float), off.shape),
    )
    return apparent, arrived - 0.1 * MS


def tables_of(work: StepWork) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """STEPS, EVENTS and JOB_STEPS from which ``step_work`` would make this launch again."""
    num_steps, num_ranks = work.own_before_sync.shape
    rank, step = np.tile(work.ranks, num_steps), np.repeat(work.steps, num_ranks)
    last = work.arrived.max(axis=1, keepdims=True)
    start = work.begin + work.parts["outside"]
    names = {"pass_id": "p", "segment": "s", "rank": rank, "step": step}
    blocked = last + work.transfer - work.arrived
    steps = STEPS.frame(
        {
            **names,
            "warmup": False,
            "start_ns": start.ravel(),
            "dur_ns": (work.end - start).ravel(),
            **{f"{name}_ns": work.parts[name].ravel() for name in PARTS_MS},
            "blocked_ns": blocked.ravel().astype(np.int64),
            "outside_ns": 0,
            "samples": 8,
            "loss": np.nan,
            "num_steps": 1,
            "evaluation": work.evaluates.ravel(),
            "clock_error_ns": 0,
        }
    )
    events = EVENTS.frame(
        {
            **names,
            "source": "recorder",
            "phase": "part",
            "activity": "blocked",
            "collective": "",
            "tensor": "",
            "occurrence": 0,
            "fusion_id": -1,
            "start_ns": work.arrived.ravel(),
            "dur_ns": blocked.ravel(),
            "size_bytes": pd.array([None] * len(rank), dtype="Int64"),
            "clock_error_ns": 0,
        }
    )
    job_steps = JOB_STEPS.frame(
        {
            "pass_id": "p",
            "segment": "s",
            "step": work.steps,
            "end_ns": work.end.max(axis=1),
            "dur_ns": work.step_times,
            "num_steps": 1,
            "steady": True,
        }
    )
    return steps, events, job_steps


def arrivals_of(ready: Times) -> pd.DataFrame:
    """ARRIVALS of ready times [steps, tensors, ranks]; NaN where a rank had none."""
    step, tensor, rank = np.nonzero(~np.isnan(ready))
    return ARRIVALS.frame(
        {
            "pass_id": "p",
            "segment": "s",
            "rank": rank,
            "step": step,
            "tensor": [f"t{number}" for number in tensor],
            "ready_ns": ready[step, tensor, rank],
            "clock_error_ns": 0,
        }
    )


def without_steps(work: StepWork, dropped: ArrayLike) -> StepWork:
    """A launch of which these steps (rows) were recorded, but do not count."""
    keep = np.ones(len(work.steps), dtype=bool)
    keep[np.asarray(dropped)] = False
    names = {field.name for field in dataclasses.fields(work)} - {
        "ranks",
        "follows",
        "parts",
        "syncs",
        "steps_per_row",
    }
    arrays = {name: getattr(work, name)[keep] for name in names}
    follows = np.diff(arrays["steps"], prepend=arrays["steps"][0] - 2) == 1
    parts = {name: times[keep] for name, times in work.parts.items()}
    return dataclasses.replace(work, **arrays, follows=follows, parts=parts)
