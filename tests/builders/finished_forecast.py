"""A finished forecast, built from declared tables without a run."""

from collections.abc import Sequence

import numpy as np

from hvdprof.model.causes import BANDWIDTH, EXPOSED_TRANSFER, JITTER, LATENCY, MODEL_ERROR
from hvdprof.model.results.forecast import MEASURED, Forecast, Limits, Missing, Question
from hvdprof.model.tables.forecast_tables import (
    FORECAST,
    FORECAST_CAUSES,
    FORECAST_MEASURE,
    FORECAST_WIDTHS,
    QUANTILES,
)
from tests.builders.declared_rows import declared_rows

SIZES = (8, 16, 32, 64)
BASELINE_RATE = 100.0
_SPREAD = {"p5": -1.6, "p25": -0.7, "p50": 0.0, "p75": 0.7, "p95": 1.5}


def finished_forecast(
    scenarios: Sequence[str] = (MEASURED,),
    *,
    losses: Sequence[float] = (0.05,),
    sizes: tuple[int, ...] = SIZES,
    is_open: bool = False,
) -> Forecast:
    """A forecast of resnet50 from np 1, 2 and 4 that loses a share with each doubling.

    Args:
        scenarios: Names of the networks.
        losses: Points of efficiency lost per doubling, one per network.
        sizes: Predicted sizes.
        is_open: Whether the bands have no lower end.
    """
    rows = [
        _row(scenario, size, 1 - loss * np.log2(size), is_open=is_open)
        for scenario, loss in zip(scenarios, losses, strict=True)
        for size in sizes
    ]
    named = list(zip(scenarios, losses, strict=True))
    cause_rows = [_causes(*one, size) for one in named for size in sizes]
    return Forecast(
        question=Question(sizes=sizes, model="resnet50", engine="horovod", ranks_per_host=4),
        baseline="torch np=1",
        baseline_samples_per_s=BASELINE_RATE,
        measured_np=(1, 2, 4),
        algorithm="ring",
        algorithm_probability=0.83,
        scenarios=tuple(scenarios),
        rows=declared_rows(FORECAST, *rows),
        causes=declared_rows(FORECAST_CAUSES, *(row for rows in cause_rows for row in rows)),
        widths=declared_rows(FORECAST_WIDTHS, *_widths(scenarios, sizes[-1])),
        measurements=declared_rows(FORECAST_MEASURE, *_measurements(scenarios)),
        limits=tuple(_limits(*one, is_open=is_open) for one in named),
        assumptions=("The batch per rank stays 32.",),
        missing=(
            Missing(
                "the network between hosts",
                "the forecast uses stated speeds",
                "hvdprof net --hosts HOST1,HOST2",
            ),
        ),
        tail_index=0.1,
    )


def _cell(scenario: str, size: int) -> dict[str, object]:
    return {
        "model": "resnet50",
        "np": size,
        "engine": "horovod",
        "compression": "none",
        "reduction": "average",
        "scenario": scenario,
    }


def _row(scenario: str, size: int, efficiency: float, *, is_open: bool) -> dict[str, object]:
    spread = 0.02 * np.log2(size)
    row = _cell(scenario, size) | {
        "num_hosts": -(-size // 4),
        "ranks_per_host": 4,
        "batch_size": 32.0,
        "extrapolation": size / 4,
        "efficiency_mean": efficiency,
        "is_open": is_open,
        "meets_target": float(np.clip(0.5 + (efficiency - 0.8) / (3 * spread), 0.01, 0.99)),
        "dominating": EXPOSED_TRANSFER,
        "dominating_part": BANDWIDTH,
        "dominating_probability": 0.9,
    }
    for short in QUANTILES:
        value = efficiency + _SPREAD[short] * spread
        if is_open and short == "p5":
            value = float("nan")
        row[f"efficiency_{short}"] = value
        row[f"samples_per_s_{short}"] = value * size * BASELINE_RATE
        row[f"step_time_{short}_ns"] = 32 / (value * BASELINE_RATE) * 1e9
    return row


def _causes(scenario: str, loss: float, size: int) -> list[dict[str, object]]:
    lost = loss * float(np.log2(size))
    shares = {
        (EXPOSED_TRANSFER, BANDWIDTH): 0.6,
        (EXPOSED_TRANSFER, LATENCY): 0.1,
        (JITTER, ""): 0.25,
        (MODEL_ERROR, ""): 0.05,
    }
    step_ns = 32 / ((1 - lost) * BASELINE_RATE) * 1e9
    return [
        _cell(scenario, size)
        | {
            "term": term,
            "part": part,
            "time_ns": share * lost * step_ns,
            "time_p5_ns": 0.5 * share * lost * step_ns,
            "time_p95_ns": 1.5 * share * lost * step_ns,
            "share": share * lost,
            "share_p5": 0.5 * share * lost,
            "share_p95": 1.5 * share * lost,
        }
        for (term, part), share in shares.items()
    ]


def _widths(scenarios: Sequence[str], size: int) -> list[dict[str, object]]:
    parts = {"links": 0.55, "model": 0.3, "jitter": 0.1, "own-work": 0.01}
    return [
        _cell(scenario, size)
        | {"input": name, "first_order": share, "first_order_error": 0.03, "band_without": 0.2}
        for scenario in scenarios
        for name, share in parts.items()
    ]


def _measurements(scenarios: Sequence[str]) -> list[dict[str, object]]:
    best = {
        "rank": 1,
        "measurement": "network",
        "measure_np": 2,
        "measure_hosts": 2,
        "duration_s": 60.0,
        "rank_hours": 2 / 60,
        "band_before": 0.37,
        "band_after": 0.25,
        "reduction_per_rank_hour": 3.6,
        "command": "hvdprof net --hosts HOST1,HOST2",
    }
    second = best | {
        "rank": 2,
        "measurement": "ranks",
        "measure_np": 8,
        "duration_s": 120.0,
        "rank_hours": 8 / 30,
        "band_after": 0.2,
        "reduction_per_rank_hour": 0.6,
        "command": "hvdprof bench --models resnet50 --np 8",
    }
    return [_cell(scenario, 64) | one for scenario in scenarios for one in (best, second)]


def _limits(scenario: str, loss: float, *, is_open: bool) -> Limits:
    largest, low = 2 ** (0.2 / loss), 2 ** (0.15 / loss)
    return Limits(scenario, 16, 0.7, largest, low, 64.0, False, True, is_open)
