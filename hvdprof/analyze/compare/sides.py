"""The cells of a run or of a table of throughputs, with what a comparison needs of each."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.compare.setting_diffs import machine_of_launches
from hvdprof.analyze.scaling.toggles import loss_curves
from hvdprof.analyze.stats.distributions import student_quantile
from hvdprof.analyze.stats.uncertainty import CONFIDENCE, NAN, LogEstimate, Spread, spread
from hvdprof.analyze.steps.cells import CellTime, cell_times, throughput_cells
from hvdprof.analyze.steps.step_time_ratio import PairedRatios, baselines
from hvdprof.model.causes import EXPOSED_TRANSFER as EXPOSED_TRANSFER_TERM
from hvdprof.model.cell_key import CELL_KEY, UNKNOWN, LaunchKey, rows_by_launch
from hvdprof.model.results.comparison import (
    EFFICIENCY,
    EXPOSED_TRANSFER,
    STARTUP,
    STEP_TIME,
    STEP_TIME_P95,
    THROUGHPUT,
)
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.rundir.plan import HOROVOD_ENGINE

CellKey = tuple[object, ...]
"""The values of ``model.cell_key.CELL_KEY``."""

_LOWEST_DEGREES = 1.0


@dataclass(frozen=True, slots=True)
class SideCell:
    """One cell of one side.

    Attributes:
        key: Its names.
        num_launches: Launches in its numbers.
        spreads: By metric, its mean over launches with variance and degrees of freedom: of the
            logarithm for ratios, of the value for points. The variance is NaN where unknown.
        by_repeat: By metric, the value of each repeat; empty where a repeat has several launches.
        conditions: What has to be the same on both sides, by name.
        losses: The loss curves of its launches: samples seen and loss, by step.
        baseline: Name of the baseline of its efficiency; empty without one.
        repeat_of: The launches in its numbers with the repeat of each.
        machine: What the machine did to its ranks, by measure (``machine_changes``).
    """

    key: CellKey
    num_launches: int
    spreads: Mapping[str, Spread]
    by_repeat: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    conditions: Mapping[str, object] = field(default_factory=dict)
    losses: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]] = ()
    baseline: str = ""
    repeat_of: Mapping[LaunchKey, int] = field(default_factory=dict)
    machine: Mapping[str, Spread] = field(default_factory=dict)

    @property
    def name(self) -> tuple[str, int]:
        """Its model and number of ranks."""
        return str(self.key[0]), int(str(self.key[1]))


def cells_of_run(analysis: RunAnalysis) -> dict[CellKey, SideCell]:
    """The cells that a run measured in throughput mode, in the order of SCALING."""
    segments = analysis.run.segments
    times = throughput_cells(cell_times(analysis.launches, segments))
    by_cell = {tuple(time.cell.key.values()): time for time in times}
    tails = _tails(analysis.job_steps)
    curves = loss_curves(analysis.run.steps)
    points = _points(analysis, times)
    launch_means = _launch_means(analysis.launches)
    repeats = {
        (str(row["pass_id"]), str(row["segment"])): int(row["repeat"])
        for row in segments.to_dict("records")
    }
    startups = _startups(segments)
    found: dict[CellKey, SideCell] = {}
    for row in analysis.scaling.to_dict("records"):
        key = tuple(row[name] for name in CELL_KEY)
        time = by_cell.get(key)
        if time is None:
            continue
        work = math.log(row["samples_per_s"]) + time.log_step_time.value
        own_tails = {launch: tails[launch] for launch in time.launches if launch in tails}
        own_startups = [startups[launch] for launch in time.launches if launch in startups]
        found[key] = SideCell(
            key=key,
            num_launches=len(time.launches),
            spreads={
                STEP_TIME.name: _spread_of(time),
                THROUGHPUT.name: Spread(
                    work - time.log_step_time.value,
                    _spread_of(time).variance,
                    _spread_of(time).degrees,
                ),
                **({STEP_TIME_P95.name: spread(list(own_tails.values()))} if own_tails else {}),
                **({STARTUP.name: spread(own_startups)} if own_startups else {}),
                **points.get(key, {}),
            },
            by_repeat={
                STEP_TIME.name: _by_repeat(time, repeats, launch_means),
                THROUGHPUT.name: {
                    repeat: work - value
                    for repeat, value in _by_repeat(time, repeats, launch_means).items()
                },
                STEP_TIME_P95.name: _by_repeat(time, repeats, own_tails),
                STARTUP.name: _by_repeat(time, repeats, startups),
            },
            conditions=_conditions(time, segments) | _cores(time, analysis.run.ranks),
            losses=[curves[launch] for launch in time.launches if launch in curves],
            baseline=str(row["baseline"]),
            repeat_of={launch: repeats[launch] for launch in time.launches},
            machine=machine_of_launches(analysis.table(RANK_MACHINE.name), time.launches),
        )
    return found


def cells_of_throughput(scaling: pd.DataFrame, throughput: pd.DataFrame) -> dict[CellKey, SideCell]:
    """The cells of a table of throughputs: one per series and number of ranks.

    Args:
        scaling: THROUGHPUT_SCALING of the table.
        throughput: Its rows of THROUGHPUT; several of one size are repeats.
    """
    found: dict[CellKey, SideCell] = {}
    efficiency = {(str(row["series"]), row["np"]): row for row in scaling.to_dict("records")}
    pools = _pooled_variance(throughput)
    for (series, size), rows in throughput.groupby(["series", "np"], observed=True, sort=False):
        logs = np.log(rows["samples_per_s"].to_numpy(dtype=np.float64))
        logs = logs[np.isfinite(logs)]
        if not len(logs):
            continue
        model, np_ = str(series) or "throughput", int(str(size))
        variance, degrees = pools[str(series)]
        own = Spread(float(logs.mean()), variance / len(logs), degrees)
        row = efficiency.get((str(series), size), {})
        spreads = {THROUGHPUT.name: own}
        reached = float(row.get("efficiency", NAN))
        if not math.isnan(reached) and row.get("np") != row.get("baseline_np"):
            low, high = float(row["efficiency_low"]), float(row["efficiency_high"])
            spreads[EFFICIENCY.name] = _of_interval(reached, low, high, degrees)
        key = (model, np_, HOROVOD_ENGINE, "none", "average")
        found[key] = SideCell(
            key=key,
            num_launches=len(logs),
            spreads=spreads,
            baseline=f"np={row.get('baseline_np')}",
        )
    return found


def _spread_of(time: CellTime) -> Spread:
    own = time.log_step_time
    # One launch without a pool knows the spread of its steps alone, not that of launches.
    num = len(time.launches)
    is_single = num < 2 and not own.pool
    degrees = own.degrees if own.pool else min(own.degrees, num - 1.0)
    return Spread(own.value, NAN if is_single else own.error**2, degrees)


def _points(analysis: RunAnalysis, times: Sequence[CellTime]) -> dict[CellKey, dict[str, Spread]]:
    """Scaling efficiency and exposed transfer of each cell: ratios, compared by difference."""
    baseline_of = baselines(times)
    ratios = PairedRatios(times, baseline_of)
    reached = {
        tuple(row[name] for name in CELL_KEY): float(row["efficiency"])
        for row in analysis.scaling.to_dict("records")
    }
    exposed = {
        tuple(row[name] for name in CELL_KEY): row
        for row in analysis.table("waterfall").to_dict("records")
        if row["term"] == EXPOSED_TRANSFER_TERM
    }
    found: dict[CellKey, dict[str, Spread]] = {}
    for time in times:
        key = tuple(time.cell.key.values())
        baseline = baseline_of.get(time.cell.model)
        own = found.setdefault(key, {})
        if baseline is not None and baseline.cell != time.cell:
            own[EFFICIENCY.name] = _of_log(reached.get(key, NAN), ratios.ratio(baseline, time))
        if key in exposed:
            row = exposed[key]
            own[EXPOSED_TRANSFER.name] = _of_interval(
                row["share"], row["share_low"], row["share_high"], len(time.launches) - 1.0
            )
    return found


def _of_log(value: float, log: LogEstimate) -> Spread:
    return Spread(value, (value * log.error) ** 2, log.degrees)


def _of_interval(value: float, low: float, high: float, degrees: float) -> Spread:
    """A value with its 95 % interval (Student t), as a mean with its variance."""
    if math.isnan(low) or math.isnan(high) or degrees < _LOWEST_DEGREES:
        return Spread(value, NAN, 0.0)
    error = (high - low) / 2 / student_quantile(degrees, (1 + CONFIDENCE) / 2)
    return Spread(value, error**2, degrees)


def _tails(job_steps: pd.DataFrame) -> dict[LaunchKey, float]:
    """The logarithm of the 95th percentile of the steady steps of each launch that recorded steps.

    The percentiles of the windows of a light recording are not those of its steps.
    """
    durations = job_steps["dur_ns"].to_numpy(dtype=np.float64)
    steady = job_steps["steady"].to_numpy(dtype=bool)
    number = job_steps["num_steps"].to_numpy()
    return {
        key: math.log(float(np.percentile(durations[rows[steady[rows]]], 95)))
        for key, rows in rows_by_launch(job_steps)
        if steady[rows].any() and (number[rows] == 1).all()
    }


def _launch_means(launches: pd.DataFrame) -> dict[LaunchKey, float]:
    return {
        (str(row["pass_id"]), str(row["segment"])): math.log(row["step_time_ns"])
        for row in launches.to_dict("records")
        if row["step_time_ns"] > 0
    }


def _startups(segments: pd.DataFrame) -> dict[LaunchKey, float]:
    """The logarithm of the time from the start of each launch to its first step."""
    return {
        (str(row["pass_id"]), str(row["segment"])): math.log(row["startup_ns"])
        for row in segments.to_dict("records")
        if row["startup_ns"] > 0
    }


def _by_repeat(
    time: CellTime, repeats: Mapping[LaunchKey, int], values: Mapping[LaunchKey, float]
) -> dict[int, float]:
    found = {repeats[key]: values[key] for key in time.launches if key in values}
    return found if len(found) == len(time.launches) else {}


def _conditions(time: CellTime, segments: pd.DataFrame) -> dict[str, object]:
    keys = segments["pass_id"].astype(str) + "/" + segments["segment"].astype(str)
    own = segments[keys.isin([f"{pass_id}/{segment}" for pass_id, segment in time.launches])]
    return {
        "samples per rank and step": _one_of(own["batch_size"].replace(0, UNKNOWN)),
        "image size": _one_of(own["image_size"]),
        "more ranks than cores": time.oversubscribed,
        "pinned ranks": time.pinned,
    }


def _cores(time: CellTime, ranks: pd.DataFrame) -> dict[str, object]:
    """The cores that each rank may use, where they are known of all."""
    own = ranks[ranks["pass_id"].isin([pass_id for pass_id, _ in time.launches])]
    cores = own["num_affinity_cores"]
    return {"cores per rank": _one_of(cores)} if len(own) and (cores > 0).all() else {}


def _one_of(values: pd.Series) -> str:
    return ", ".join(map(str, sorted(set(values))))


def _pooled_variance(throughput: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """By series, the variance of the logarithm of one row within its size, and its degrees."""
    found = {}
    for series, rows in throughput.groupby("series", observed=True, sort=False):
        squares, degrees = 0.0, 0.0
        for _, own in rows.groupby("np", observed=True):
            logs = np.log(own["samples_per_s"].to_numpy(dtype=np.float64))
            squares += float(np.square(logs - logs.mean()).sum())
            degrees += len(logs) - 1
        found[str(series)] = (squares / degrees if degrees else NAN, degrees)
    return found
