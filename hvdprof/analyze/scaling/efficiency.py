"""Throughput, efficiency, serial fraction (Karp-Flatt) and lost time by part of each cell."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.uncertainty import CONFIDENCE, NAN, Interval
from hvdprof.analyze.steps.cells import Cell, CellTime, throughput_cells
from hvdprof.analyze.steps.measured_launches import Facts
from hvdprof.analyze.steps.step_time_ratio import (
    PairedRatios,
    baseline_name,
    baselines,
    trace_overhead,
    unscaled_baselines,
)
from hvdprof.model.causes import PARTS, RECORDED_PARTS, RESIDUAL
from hvdprof.model.cell_key import ENGINE_TITLES, LaunchKey
from hvdprof.model.tables.scaling_tables import LOSSES, SCALING


def karp_flatt(efficiency: float, scale: float) -> float:
    """The experimentally determined serial fraction ``(1/S - 1/n) / (1 - 1/n)``.

    ``n`` is the growth of the job, ``S = efficiency * n`` its speed-up. A fraction that is constant
    over sizes is work that is not parallel; a rising one is overhead that grows with the job
    (A. Karp and H. Flatt, CACM 33, 1990). Negative where scaling is super-linear; NaN for the same
    size.
    """
    if not scale > 1 or not efficiency > 0:
        return NAN
    return (1 / (efficiency * scale) - 1 / scale) / (1 - 1 / scale)


def efficiency_at(serial_fraction: float, scale: float) -> float:
    """The efficiency by Amdahl's law for a serial fraction."""
    return 1 / (1 + serial_fraction * (scale - 1))


_LEAST_FOR_P95 = 20
"""Fewer steps have none beyond their 95th percentile: it would be the longest of them."""


def scaling(
    times: Mapping[Cell, CellTime],
    facts: Facts,
    losses: Mapping[Cell, float],
    sent_bytes: Mapping[LaunchKey, int],
    *,
    confidence: float = CONFIDENCE,
) -> pd.DataFrame:
    """SCALING, one row per cell measured in throughput mode, ordered by ``in_order``.

    ``samples_per_s = np * samples per rank and step / step time`` and, with the throughput x of N
    ranks and that of the baseline's N0, ``efficiency = (x_N / N) / (x_N0 / N0)``. This holds for
    weak and strong scaling, because the samples per rank are part of x. Where no other number of
    ranks was measured, the baseline has no efficiency: 1 would read as a job that scales.
    """
    cells = throughput_cells(times)
    baseline_of = baselines(cells)
    ratios = PairedRatios(cells, baseline_of)
    unscaled = _without_scaling(cells)
    return SCALING.frame(
        [
            _row(time, baseline_of.get(time.cell.model), facts, ratios, confidence)
            | unscaled.get(time.cell, {})
            | _observed(trace_overhead(time.cell, times))
            | {
                "final_loss": losses.get(time.cell, NAN),
                "sent_bytes": max(sent_bytes.get(key, 0) for key in time.launches),
            }
            for time in in_order(cells)
        ]
    )


def _without_scaling(cells: Sequence[CellTime]) -> dict[Cell, dict[str, object]]:
    """What replaces the efficiency of baselines that no other number of ranks refers to."""
    number = Counter(time.cell.model for time in cells)
    return {
        cell: {"efficiency": NAN, **({} if number[cell.model] > 1 else {"baseline": ""})}
        for cell in unscaled_baselines(cells)
    }


def in_order(cells: Sequence[CellTime]) -> list[CellTime]:
    """Cells in the order of model as measured, np, engine (torch, Horovod, DDP), toggles last."""
    models = list(dict.fromkeys(time.cell.model for time in cells))
    engines = list(ENGINE_TITLES)
    return sorted(
        cells,
        key=lambda time: (
            models.index(time.cell.model),
            time.cell.np,
            engines.index(time.cell.engine),
            time.cell.reduction != "average",
            time.cell.compression != "none",
            time.cell,
        ),
    )


def samples_per_rank(time: CellTime, facts: Facts) -> float:
    """Mean number of samples per rank and step of a cell."""
    return float(np.mean([facts[key].samples for key in time.launches]))


def part_share(time: CellTime, facts: Facts, part: str) -> float:
    """Share of a recorded part in the step time of a cell: the mean over its launches.

    The share is computed per launch, because launches differ in length: the mean of a part divided
    by the mean step would weight slow launches more than the step time of the cell does.
    """
    return float(
        np.mean(
            [facts[key].parts_ns[part] / facts[key].step_times_ns.mean() for key in time.launches]
        )
    )


def efficiency(
    time: CellTime,
    baseline: CellTime | None,
    facts: Facts,
    ratios: PairedRatios,
    confidence: float = CONFIDENCE,
) -> Interval:
    """The scaling efficiency of a cell with its interval; 1 and no interval for the baseline."""
    if baseline is None:
        return Interval(NAN, NAN, NAN)
    if baseline.cell == time.cell:
        return Interval(1.0, NAN, NAN)
    work = samples_per_rank(time, facts) / samples_per_rank(baseline, facts)
    ratio = ratios.ratio(baseline, time).interval(confidence)
    return Interval(work * ratio.value, work * ratio.low, work * ratio.high)


def _row(
    time: CellTime,
    baseline: CellTime | None,
    facts: Facts,
    ratios: PairedRatios,
    confidence: float,
) -> dict[str, object]:
    cell = time.cell
    step_time = time.log_step_time.interval(confidence)
    samples = cell.np * samples_per_rank(time, facts) * 1e9
    reached = efficiency(time, baseline, facts, ratios, confidence)
    step_times = np.concatenate([facts[key].step_times_ns for key in time.launches])
    blocked_share = part_share(time, facts, "blocked")
    # Of a light recording these are means of windows, whose percentiles are not those of steps.
    is_known = len(step_times) >= max(time.num_steps, _LEAST_FOR_P95)
    p95_ns = float(np.percentile(step_times, 95)) if is_known else NAN
    return {
        **cell.key,
        "batch_size": cell.batch_size or None,
        "batch_size_low": min(facts[key].samples_of_ranks[0] for key in time.launches),
        "batch_size_high": max(facts[key].samples_of_ranks[1] for key in time.launches),
        "samples_per_s": samples / step_time.value,
        "samples_per_s_low": samples / step_time.high,
        # An interval without a bound reaches to steps of no length.
        "samples_per_s_high": samples / step_time.low if step_time.low else NAN,
        "step_time_median_ns": float(np.median(step_times)),
        "step_time_p95_ns": p95_ns,
        "efficiency": reached.value,
        "efficiency_low": reached.low,
        "efficiency_high": reached.high,
        "karp_flatt": karp_flatt(reached.value, cell.np / baseline.cell.np) if baseline else NAN,
        "baseline": baseline_name(baseline) if baseline else "",
        "blocked_ns": NAN if cell.is_plain_torch else blocked_share * step_time.value,
        "blocked_share": NAN if cell.is_plain_torch else blocked_share,
        "num_launches": len(time.launches),
        "num_steps": time.num_steps,
        "oversubscribed": time.oversubscribed,
        "pinned": time.pinned,
    }


def _observed(cost: Interval) -> dict[str, float]:
    return {
        "trace_overhead": cost.value,
        "trace_overhead_low": cost.low,
        "trace_overhead_high": cost.high,
    }


def losses(times: Mapping[Cell, CellTime], facts: Facts) -> pd.DataFrame:
    """LOSSES of every cell in throughput mode but the baselines.

    With the step time T, a part p, and w the samples per rank and step divided by those of the
    baseline (1 in weak scaling, N0/N in strong scaling):

        lost(p) = p_N - w * p_N0        sum over p = T_N - w * T_N0
        share(p) = lost(p) / T_N        sum over p = 1 - efficiency

    A part is its share of the step (the mean over launches of the part divided by the step time
    of that launch) times the step time of the cell; ``residual`` is the step time of the job minus
    the mean step of its ranks, so that the sums are exact. A part that is not measured in one of
    the two cells has no row, and is part of ``outside`` in both.
    """
    cells = throughput_cells(times)
    baseline_of = baselines(cells)
    rows: list[dict[str, object]] = []
    for time in in_order(cells):
        baseline = baseline_of.get(time.cell.model)
        if baseline is not None and baseline.cell != time.cell and not time.cell.is_plain_torch:
            rows += _rows(time, baseline, facts)
    return LOSSES.frame(rows)


def part_times_ns(time: CellTime, facts: Facts) -> dict[str, float]:
    """The mean of each of ``model.causes.PARTS`` of a cell, ns, NaN for unmeasured parts.

    The others sum to its step time.
    """
    step_time_ns = float(np.exp(time.log_step_time.value))
    parts = {part: step_time_ns * part_share(time, facts, part) for part in RECORDED_PARTS}
    return parts | {RESIDUAL: step_time_ns - float(np.nansum(list(parts.values())))}


def _rows(time: CellTime, baseline: CellTime, facts: Facts) -> list[dict[str, object]]:
    cell = time.cell
    both = part_times_ns(time, facts), part_times_ns(baseline, facts)
    seen = [part for part in PARTS if not any(math.isnan(parts[part]) for parts in both)]
    own, reference = (_within(seen, parts) for parts in both)
    work = samples_per_rank(time, facts) / samples_per_rank(baseline, facts)
    step_time_ns = sum(own.values())
    return [
        {
            **cell.key,
            "part": part,
            "lost_ns": own[part] - work * reference[part],
            "lost_share": (own[part] - work * reference[part]) / step_time_ns,
        }
        for part in seen
    ]


def _within(seen: Sequence[str], parts: Mapping[str, float]) -> dict[str, float]:
    """The parts measured in both cells; the time of the others is added to ``outside``."""
    rest = float(np.nansum([length for part, length in parts.items() if part not in seen]))
    return {part: parts[part] + (rest if part == "outside" else 0.0) for part in seen}
