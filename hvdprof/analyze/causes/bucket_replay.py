"""Replay of steps from the ready times of gradients and the times of the collectives.

A check of the loop that predicts steps (``analyze/predict/horovod_loop.py``): a fused bucket starts
in the first cycle at which its last gradient is ready on the last rank, and not before the previous
bucket is finished (dPRO, Hu et al., MLSys 2022, replays such a chain from its own traces):

    f_i = max(cycle(ready_i), f_(i-1)) + negotiation + c_i
    release = max(f_last, last arrival) + rest

``c_i`` is measured for every bucket, ``negotiation`` and ``rest`` are one number per launch. Cycles
start where the timeline marks them. Without marks their phase is unknown: the replayed step is the
mean over phases. The remaining error is not explained by this model.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.predict.costs.gradient_trace import cycle_marks
from hvdprof.analyze.predict.horovod_loop import (
    CycleMarks,
    LoopSettings,
    idle_period,
    simulate_loop,
)
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.arrays import Float64s, Int64s
from hvdprof.model.cell_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.schema import as_text
from hvdprof.model.tables.waterfall_tables import REPLAYS

_LEAST_STEPS = 5
NUM_PHASES = 16
NEGOTIATION_QUANTILE = 0.05
MARKED, UNIFORM = "marks", "uniform"
_TIMES = ("last_ns", "start_ns", "dur_ns")


@dataclass(frozen=True, slots=True)
class _Buckets:
    """The executions of gradients of a launch in the order of their starts, [buckets], ns.

    ``step`` is the step of each, ``ready`` when its last gradient is ready on the last rank, and
    ``first`` [steps] the place of the first of each step.
    """

    step: Int64s
    ready: Float64s
    start: Float64s
    cost: Float64s
    first: Int64s

    @classmethod
    def of(cls, table: pd.DataFrame) -> "_Buckets":
        step = table["step"].to_numpy(dtype=np.int64)
        ready, start, cost = (table[name].to_numpy(dtype=np.float64) for name in _TIMES)
        first = np.flatnonzero(np.diff(step, prepend=-1) != 0)
        return cls(step, ready, start, cost, first)

    @property
    def last(self) -> Int64s:
        """[steps] The place of the last of each step."""
        return np.append(self.first[1:], len(self.step)) - 1

    @property
    def rows(self) -> Int64s:
        """[steps, buckets] The places of each step; the last one again in steps with fewer."""
        widest = int((self.last - self.first).max()) + 1
        return np.asarray(np.minimum(self.first[:, None] + np.arange(widest), self.last[:, None]))


def bucket_replays(
    works: Mapping[LaunchKey, StepWork],
    collective_arrivals: pd.DataFrame,
    uses: pd.DataFrame,
    executions: pd.DataFrame,
    events: pd.DataFrame,
) -> pd.DataFrame:
    """REPLAYS of the launches whose collectives are in a timeline.

    Args:
        works: The steady steps of each launch.
        collective_arrivals: COLLECTIVE_ARRIVALS.
        uses: TENSOR_USES, for the gradients of each execution.
        executions: EXECUTIONS.
        events: EVENTS, for the marks of cycles.
    """
    if executions.empty:
        return REPLAYS.empty()
    marks = cycle_marks(events)
    buckets = _bucket_table(collective_arrivals, uses, executions)
    rows = []
    for key, members in rows_by_launch(buckets):
        work = works.get(key)
        if work is None or len(work.ranks) < 2:
            continue
        own_marks = marks.get(key, np.empty(0))
        found = _replay(work, _Buckets.of(buckets.iloc[members]), own_marks)
        if found is None:
            continue
        measured, replayed = found
        errors = np.abs(replayed - measured) / measured
        rows.append(
            {
                "pass_id": key[0],
                "segment": key[1],
                "num_steps": len(measured),
                "phase": MARKED if len(own_marks) else UNIFORM,
                "step_time_ns": float(measured.mean()),
                "replayed_ns": float(replayed.mean()),
                "error_median": float(np.median(errors)),
                "error_p95": float(np.percentile(errors, 95)),
            }
        )
    return REPLAYS.frame(rows)


def _bucket_table(
    arrivals: pd.DataFrame, uses: pd.DataFrame, executions: pd.DataFrame
) -> pd.DataFrame:
    """One row per execution of gradients: step, start, duration, last ready time."""
    names = [*LAUNCH, "tensor"]
    fused = uses.loc[
        (uses["fusion_id"] >= 0) & (uses["step"] >= 0), [*LAUNCH, "step", "tensor", "fusion_id"]
    ]
    ready = as_text(arrivals[[*LAUNCH, "step", "tensor", "last_ns"]], names)
    last = (
        as_text(fused, names)
        .merge(ready, on=[*LAUNCH, "step", "tensor"])
        .groupby([*LAUNCH, "step", "fusion_id"], sort=False)["last_ns"]
        .max()
        .reset_index()
    )
    timed = executions.loc[
        executions["dur_ns"].notna(), [*LAUNCH, "fusion_id", "start_ns", "dur_ns"]
    ].astype({"dur_ns": "int64"})
    joined = last.merge(as_text(timed, LAUNCH), on=[*LAUNCH, "fusion_id"])
    return joined.sort_values([*LAUNCH, "step", "start_ns"], ignore_index=True)


def _replay(
    work: StepWork, buckets: _Buckets, marks_ns: Float64s
) -> tuple[Float64s, Float64s] | None:
    """Measured and replayed step times."""
    steps = buckets.step[buckets.first]
    here = np.isin(work.steps, steps)
    if here.sum() < _LEAST_STEPS:
        return None
    place = np.searchsorted(steps, work.steps[here])
    arrival = work.arrived[here].max(axis=1)
    release = (work.arrived.max(axis=1, keepdims=True) + work.transfer)[here]
    measured_last = np.maximum((buckets.start + buckets.cost)[buckets.last][place], arrival)
    rest = np.median(release - measured_last[:, None], axis=0)
    replayed_last = np.maximum(_replayed_ends(buckets, marks_ns)[place], arrival)
    end = (replayed_last[:, None] + rest + work.own_after_release[here]).max(axis=1)
    return work.step_times[here], end - work.begin[here].max(axis=1)


def _marked_cycles(buckets: _Buckets, marks_ns: Float64s) -> tuple[LoopSettings, CycleMarks]:
    """The time of a negotiation, and the cycles.

    A negotiation is the time from a mark to the first execution of its cycle. Rank 0 alone marks
    its cycles, and another rank may start the same cycle later. Where a gradient is ready between
    the mark and the execution, the cycle therefore starts at that moment, too.
    """
    cycle = np.searchsorted(marks_ns, buckets.start, side="right") - 1
    mark = np.append(marks_ns, -np.inf)[cycle]
    opens = (np.diff(cycle, prepend=-2) != 0) & (cycle >= 0)
    if not opens.any():
        return LoopSettings(fusion_bytes=0), CycleMarks(marks_ns)
    started = np.maximum(mark, buckets.ready)
    negotiation = float(np.median((buckets.start - started)[opens]))
    late = started[opens & (buckets.ready > mark)]
    starts = np.sort(np.concatenate([marks_ns, late]))
    return LoopSettings(fusion_bytes=0, negotiation_ns=negotiation), CycleMarks(starts)


def _idle_cycles(buckets: _Buckets) -> LoopSettings:
    """The time of a negotiation and of a cycle where there are no marks.

    The wait of the last bucket of a step is a negotiation and a part of a cycle, uniform between
    none and all of it, wherever it finds the loop idle. Earlier buckets are no measure: during
    backward the loop may wait for a core.
    """
    last = buckets.last
    end_before = (buckets.start + buckets.cost)[last - 1]
    idle = (last == buckets.first) | (buckets.ready[last] > end_before)
    waits = (buckets.start - buckets.ready)[last[idle]] if idle.any() else np.zeros(1)
    negotiation, middle = np.quantile(waits, [NEGOTIATION_QUANTILE, 0.5])
    cycle_ns = float(2 * (middle - negotiation))
    return LoopSettings(cycle_ns, 0, max(float(negotiation), 0.0))


def _replayed_ends(buckets: _Buckets, marks_ns: Float64s) -> Float64s:
    """[steps] The end of the last bucket; without marks the mean over phases of the cycle.

    A bucket goes through the loop as one gradient that is fused with no other: its size is the
    time of its execution.
    """
    rows = buckets.rows
    ready = buckets.ready[rows]
    cost = np.where(np.diff(rows, axis=1, prepend=-1) != 0, buckets.cost[rows], 0.0)
    if len(marks_ns):
        settings, cycles = _marked_cycles(buckets, marks_ns)
        return simulate_loop(ready, cost, settings, cost_ns=_same, cycle_start_ns=cycles).end_ns
    settings = _idle_cycles(buckets)
    shares = (np.arange(NUM_PHASES) + 0.5) / NUM_PHASES
    behind = np.tile(shares, len(ready)) * idle_period(settings)
    many = np.repeat(ready, NUM_PHASES, axis=0)
    step = simulate_loop(
        many,
        np.repeat(cost, NUM_PHASES, axis=0),
        settings,
        cost_ns=_same,
        cycle_start_ns=many.min(axis=1) - behind,
    )
    return np.asarray(step.end_ns.reshape(-1, NUM_PHASES).mean(axis=1))


def _same(size: Float64s) -> Float64s:
    return size
