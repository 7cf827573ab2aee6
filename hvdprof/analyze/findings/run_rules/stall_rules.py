"""The rules on single long steps of one rank, and on a rank that starts slowly.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.analyze.findings.advice import advice, sentences
from hvdprof.analyze.findings.cell_finding import (
    cell_name,
    cell_place,
    cost_of,
    costly_causes,
    raises_efficiency,
)
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.findings.finding import SMALLEST_COST, Finding, severity_of_cost
from hvdprof.analyze.ranks.events import CERTAIN
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.steps.measured_launches import is_light, row_noun
from hvdprof.analyze.steps.step_work import step_work, with_all_ranks
from hvdprof.model.cause_names import ranks_of, where
from hvdprof.model.causes import PAUSE
from hvdprof.model.cell_key import LAUNCH
from hvdprof.model.schema import as_text
from hvdprof.model.tables.run_tables import WAITS
from hvdprof.model.tables.scaling_tables import JOB_STEPS

LONG_STEP = 2.0
"""A step that takes this many medians is a stall."""

LEAST_STALLS = 3
SHARE_OF_LAUNCHES = 0.5
REGULAR = 0.2
"""Distances between stalls that differ by less than this share of their mean are regular."""

REGULAR_OF_TWO = 0.05
"""The same of two distances alone: by chance they differ by as little in one launch of twenty."""

_AT_REGULAR_DISTANCE = advice(
    "look for what happens at that distance: checkpoints, evaluation, logging, the end of a data "
    "shard",
    "For garbage collection, call gc.freeze().",
)
_AT_NO_DISTANCE = advice(
    "look for what shares the machine or the storage: other jobs, snapshots, a shared file system"
)


def stalled_steps(evidence: Evidence) -> Iterator[Finding]:
    """Steps of one rank that take far longer than the others, at a regular distance or not.

    Reported where half of the launches of a cell or more have them, and WATERFALL names no costly
    pause: it has no rows of plain torch, and none of steps without a significant pattern.
    """
    steps = evidence.table(JOB_STEPS.name)
    if steps.empty:
        return
    measured = evidence.measured
    measured = measured[measured["size"] == 1]
    named = {_names(cause.cell) for cause in costly_causes(evidence, PAUSE, oversubscribed=True)}
    rows = row_noun(evidence.run)
    per_step = "per step " if is_light(evidence.run) else ""
    steady = as_text(steps[steps["steady"]], LAUNCH)
    joined = steady.merge(measured[~measured["oversubscribed"]], on=LAUNCH)
    for (model, size, engine), of_cell in joined.groupby(
        ["model", "size", "engine"], observed=True
    ):
        cell = {"model": str(model), "np": int(str(size)), "engine": str(engine)}
        if _names(cell) in named:
            continue
        launches = [own for _, own in of_cell.groupby(LAUNCH)]
        found = [stall for own in launches if (stall := _stalls(own)) is not None]
        if len(found) < max(1.0, SHARE_OF_LAUNCHES * len(launches)):
            continue
        # A launch without any counts too: what comes back is a mean over launches.
        share = float(sum(stall.share for stall in found)) / len(launches)
        if share < SMALLEST_COST:
            continue
        each_ns = float(np.mean([stall.each_ns for stall in found]))
        distances = [stall.distance for stall in found if stall.distance is not None]
        regular = float(np.median(distances)) if len(distances) == len(found) else None
        yield Finding(
            "stalled-steps",
            severity_of_cost(share),
            cell_name(cell),
            "stalled steps" + ("" if regular is None else " at a regular distance"),
            sentences(
                f"{cell_place(cell)}: {_which(regular, rows)} take {units.milliseconds(each_ns)} "
                f"{per_step}longer than the others, {units.percent(share)} of all time.",
                f"{sum(stall.number for stall in found)} such {rows} occur in {len(found)} of "
                f"{len(launches)} launches.",
                raises_efficiency(evidence, cell),
            ),
            _AT_NO_DISTANCE if regular is None else _AT_REGULAR_DISTANCE,
            "possible" if regular is None else "likely",
            **cost_of(cell, share, share * float(of_cell["dur_ns"].mean()), share),
        )


def _names(cell: Cell) -> tuple[str, int, str]:
    return str(cell["model"]), int(cell["np"]), str(cell["engine"])


@dataclass(frozen=True, slots=True)
class _Stall:
    """The long steps of a launch: how many, their excess by all time and each, their distance."""

    number: int
    share: float
    each_ns: float
    distance: float | None


def _stalls(steps: pd.DataFrame) -> _Stall | None:
    times = steps["dur_ns"].to_numpy(dtype=np.float64)
    median = float(np.median(times))
    is_long = times > LONG_STEP * median
    excess = times[is_long] - median
    share = float(excess.sum() / times.sum())
    if is_long.sum() < LEAST_STALLS or share < SMALLEST_COST:
        return None
    numbers = steps["step"].to_numpy(dtype=np.float64)[is_long]
    return _Stall(int(is_long.sum()), share, float(excess.mean()), _distance(numbers))


def _distance(numbers: NDArray[np.float64]) -> float | None:
    gaps = np.diff(numbers)
    mean = float(gaps.mean())
    most = REGULAR if len(gaps) > LEAST_STALLS - 1 else REGULAR_OF_TWO
    return mean if mean >= 2 and float(gaps.std()) <= most * mean else None


def _which(distance: float | None, rows: str) -> str:
    if distance is None:
        return f"single {rows}"
    return f"{rows} at a distance of {distance:.0f}{'' if rows == 'steps' else ' steps'}"


def slow_start(evidence: Evidence) -> Iterator[Finding]:
    """A rank that is later in the steps left out as warm-up, and not named for that behind them."""
    run, of_job = evidence.run, evidence.table(JOB_STEPS.name)
    if of_job.empty or of_job["steady"].all():
        return
    cut = of_job.assign(steady=~of_job["steady"])
    works = step_work(run.steps, run.events, cut, run.table(WAITS.name))
    works = with_all_ranks(works, run.segments)
    for cell in evidence.cells():
        known = [(ranks_of(row), row["phase"]) for row in evidence.causes_of(cell)]
        keys = list(evidence.launches_of(cell).itertuples(index=False, name=None))
        starts = [rank_times(works[key]) for key in keys if key in works]
        found = [
            (times, cause)
            for times in starts
            for cause in named_causes(times)
            if cause.kind != PAUSE and len(cause.ranks) == 1 and cause.chance < CERTAIN
        ]
        own = {cause.ranks for _, cause in found}
        if len(own) != 1 or len(found) < SHARE_OF_LAUNCHES * len(keys):
            continue
        times, cause = max(found, key=lambda one: one[0].step_ns)
        if (cause.ranks, cause.phase) in known:
            continue
        rank, steps = cause.ranks[0], times.steps
        later_ns = float(times.lateness[:, times.ranks == rank].mean())
        yield Finding(
            "slow-start",
            "note",
            f"rank {rank}",
            f"slow start of rank {rank}",
            f"{cell_place(cell)}: rank {rank} takes {units.milliseconds(later_ns)} more per step "
            f"than the others in steps {steps[0]} to {steps[-1]}, {where(cause.phase)}. They are "
            f"left out as warm-up. The others wait {units.seconds(later_ns * len(steps) / 1e9)}.",
            advice(
                f"look for what rank {rank} alone does at the start: an empty cache, compilation"
            ),
            "possible",
            **cost_of(cell),
        )
