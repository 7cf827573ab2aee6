"""Predicted steps over draws as rows of the tables of a forecast, and where scaling ends."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.predict.next_measurement import Measurement, WidthSource
from hvdprof.analyze.predict.predicted_step import CauseKey, PredictedStep
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.arrays import Float64s
from hvdprof.model.causes import (
    BASELINE_CREDIT,
    EXPOSED_TRANSFER,
    FORECAST_TERMS,
    MODEL_ERROR,
    TRANSFER_PARTS,
)
from hvdprof.model.results.forecast import Limits
from hvdprof.model.tables.forecast_tables import QUANTILES

LEAST_SHARE = 0.005
"""A cause that costs less than this share of the step dominates nothing."""

Row = dict[str, object]
KNEE_POINTS = 0.05
"""A doubling that costs more points of efficiency than this is beyond the knee."""

_MOST_DRAWS = 0.5


@dataclass(frozen=True, slots=True)
class CellName:
    """The columns of ``model.cell_key`` but ``np``, and the scenario."""

    model: str
    engine: str
    compression: str
    scenario: str

    def row(self, num_ranks: int) -> Row:
        """The columns that name a predicted cell."""
        return {
            "model": self.model,
            "np": num_ranks,
            "engine": self.engine,
            "compression": self.compression,
            "reduction": "average",
            "scenario": self.scenario,
        }


def forecast_row(
    name: CellName,
    step: PredictedStep,
    *,
    extrapolation: float,
    is_open: bool,
    target: float,
    measured: float,
) -> Row:
    """A row of FORECAST.

    Args:
        name: Of the cell.
        step: Its prediction.
        extrapolation: Ranks divided by the largest measured number.
        is_open: Whether the tail of the jitter is not known.
        target: Efficiency to reach.
        measured: Measured efficiency, or NaN.
    """
    efficiency = step.efficiency
    row: Row = {
        **name.row(step.target.num_ranks),
        "num_hosts": step.target.topology.num_hosts,
        "ranks_per_host": step.target.topology.largest_host,
        "batch_size": step.samples,
        "extrapolation": extrapolation,
        "efficiency_mean": float(efficiency.mean()),
        "is_open": is_open,
        "meets_target": float((efficiency >= target).mean()),
        "measured_efficiency": measured,
    }
    quantities = (
        ("efficiency_{}", efficiency, "p5"),
        ("samples_per_s_{}", step.samples_per_s, "p5"),
        ("step_time_{}_ns", step.step_ns, "p95"),
    )
    for stem, values, open_end in quantities:
        found = np.quantile(values, list(QUANTILES.values()))
        for short, value in zip(QUANTILES, found, strict=True):
            hidden = is_open and short == open_end
            row[stem.format(short)] = NAN if hidden else float(value)
    return row | _dominating(step)


def cause_rows(name: CellName, step: PredictedStep) -> list[Row]:
    """Rows of FORECAST_CAUSES, in the order of ``model.causes.FORECAST_TERMS``."""
    rows = []
    for key in _ordered(step.causes):
        term, part = key
        time = np.broadcast_to(step.causes[key], step.step_ns.shape)
        share = time / step.step_ns
        low, high = np.quantile(time, [0.05, 0.95])
        share_low, share_high = np.quantile(share, [0.05, 0.95])
        rows.append(
            {
                **name.row(step.target.num_ranks),
                "term": term,
                "part": part,
                "time_ns": float(time.mean()),
                "time_p5_ns": float(low),
                "time_p95_ns": float(high),
                "share": float(share.mean()),
                "share_p5": float(share_low),
                "share_p95": float(share_high),
            }
        )
    return rows


def width_rows(
    name: CellName, num_ranks: int, sources: Mapping[str, WidthSource], band: float
) -> list[Row]:
    """Rows of FORECAST_WIDTHS, largest first; ``band`` is the width of the 90 % band."""
    ordered = sorted(sources.items(), key=lambda entry: -entry[1].first_order)
    return [
        {
            **name.row(num_ranks),
            "input": source,
            "first_order": one.first_order,
            "first_order_error": one.error,
            "band_without": band * float(np.sqrt(1 - one.first_order)),
        }
        for source, one in ordered
    ]


def measurement_rows(
    name: CellName, num_ranks: int, found: Sequence[Measurement], band: float
) -> list[Row]:
    """Rows of FORECAST_MEASURE in the given order; ``band`` is the width of the band now."""
    return [
        {
            **name.row(num_ranks),
            "rank": place + 1,
            "measurement": one.kind,
            "measure_np": one.num_ranks,
            "measure_hosts": one.num_hosts,
            "duration_s": one.duration_s,
            "rank_hours": one.rank_hours,
            "band_before": band,
            "band_after": one.band_after,
            "reduction_per_rank_hour": one.reduction_per_rank_hour(band),
            "command": one.command,
        }
        for place, one in enumerate(found)
    ]


def band_width(values: Float64s) -> float:
    """The width of the 90 % band."""
    low, high = np.quantile(values, [QUANTILES["p5"], QUANTILES["p95"]])
    return float(high - low)


def _ordered(causes: Mapping[CauseKey, Float64s]) -> list[CauseKey]:
    terms, parts = list(FORECAST_TERMS), ("", *TRANSFER_PARTS)
    return sorted(causes, key=lambda key: (terms.index(key[0]), parts.index(key[1])))


def _dominating(step: PredictedStep) -> Row:
    """The largest cause; what the model does not hold and the baseline are none."""
    by_term: dict[str, Float64s] = {}
    for (term, _), time in step.causes.items():
        if term not in (MODEL_ERROR, BASELINE_CREDIT):
            by_term[term] = by_term.get(term, np.zeros_like(step.step_ns)) + time / step.step_ns
    terms = list(by_term)
    shares = np.stack([by_term[term] for term in terms])
    largest = int(shares.mean(axis=1).argmax())
    if not shares[largest].mean() >= LEAST_SHARE:
        return {"dominating": "", "dominating_part": "", "dominating_probability": NAN}
    part = ""
    if terms[largest] == EXPOSED_TRANSFER:
        means = {
            key[1]: float(time.mean())
            for key, time in step.causes.items()
            if key[0] == EXPOSED_TRANSFER
        }
        part = max(means, key=lambda name: means[name])
    return {
        "dominating": terms[largest],
        "dominating_part": part,
        "dominating_probability": float((shares.argmax(axis=0) == largest).mean()),
    }


def drawn_limits(
    scenario: str, sizes: Sequence[int], efficiencies: Float64s, target: float, first: int
) -> Limits:
    """The knee and the largest number of ranks at the target.

    Between two sizes the efficiency changes linearly with log N. A draw ends where it falls below
    the target for the first time.

    Args:
        scenario: The name of the curve.
        sizes: Numbers of ranks in rising order.
        efficiencies: [draws, sizes]; a NaN stands for an efficiency that has no lower end.
        target: Efficiency that a useful number of ranks reaches.
        first: The knee is searched from this size on, such as the largest measured one.
    """
    logs = np.log2(np.asarray(sizes, dtype=np.float64))
    knee, probability = _knee(logs, efficiencies, sizes, first)
    largest = _largest(logs, efficiencies, target)
    # Whole draws: between a number and "beyond" lies nothing to interpolate.
    low, middle, high = (
        float(value) for value in np.quantile(largest, [0.05, 0.5, 0.95], method="inverted_cdf")
    )
    return Limits(
        scenario=scenario,
        knee=knee,
        knee_probability=probability,
        largest_np=min(middle, float(sizes[-1])),
        largest_np_low=min(low, float(sizes[-1])),
        largest_np_high=min(high, float(sizes[-1])),
        is_beyond=math.isinf(middle),
        is_high_beyond=math.isinf(high),
        is_low_open=bool(np.isnan(efficiencies).any()),
    )


def _knee(
    logs: Float64s, efficiencies: Float64s, sizes: Sequence[int], first: int
) -> tuple[int | None, float]:
    slopes = np.diff(efficiencies, axis=1) / np.diff(logs)
    shares = np.mean(slopes < -KNEE_POINTS, axis=0)
    for size, share in zip(sizes[:-1], shares, strict=True):
        if size >= first and share > _MOST_DRAWS:
            return int(size), float(share)
    return None, math.nan


def _largest(logs: Float64s, efficiencies: Float64s, target: float) -> Float64s:
    """The number of ranks [draws] at which each draw falls below the target, inf beyond all."""
    below = ~(efficiencies >= target)
    falls = below.any(axis=1)
    at = below.argmax(axis=1)
    rows = np.arange(len(efficiencies))
    before = np.maximum(at - 1, 0)
    upper, lower = efficiencies[rows, before], efficiencies[rows, at]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip((upper - target) / (upper - lower), 0.0, 1.0)
    # A draw without a lower end falls at once.
    share = np.where(np.isnan(share), 0.0, share)
    crossing = np.exp2(logs[before] + share * (logs[at] - logs[before]))
    largest: Float64s = np.where(falls, np.where(at == 0, 0.0, crossing), np.inf)
    return largest
