"""Additional step time of a cell against its baseline: parts that sum to the whole."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hvdprof.analyze.scaling.efficiency import in_order, part_share, samples_per_rank
from hvdprof.analyze.steps.cells import Cell, CellTime, throughput_cells
from hvdprof.analyze.steps.measured_launches import Facts
from hvdprof.analyze.steps.step_time_ratio import baselines
from hvdprof.model.step_parts import PARTS, RECORDED_PARTS, RESIDUAL
from hvdprof.model.tables.scaling_tables import LOSSES


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
    """The mean of each of ``model.step_parts.PARTS`` of a cell, ns, NaN for unmeasured parts.

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
