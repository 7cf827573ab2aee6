"""Which causes of lost time moved between two runs.

Tested in ``tests/analyze/compare/test_comparison.py``.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hvdprof.analyze.causes.waterfall_diff import waterfall_diff
from hvdprof.analyze.compare.outcomes import holm
from hvdprof.analyze.compare.sides import CellKey, SideCell
from hvdprof.analyze.stats.distributions import normal_below, normal_quantile
from hvdprof.analyze.stats.uncertainty import CONFIDENCE, NAN, Interval
from hvdprof.model.causes import REFERENCE_TERM, RESIDUAL_TERM
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.comparison import DEFAULT_LEVEL, STEP_TIME
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.tables.comparison_tables import MOVED_CAUSES
from hvdprof.model.tables.waterfall_tables import WATERFALL_DIFF

Cells = Mapping[CellKey, SideCell]


def moved_causes(
    waterfalls: tuple[pd.DataFrame, pd.DataFrame],
    sides: tuple[Cells, Cells],
    pairs: Sequence[tuple[SideCell, SideCell]],
) -> pd.DataFrame:
    """MOVED_CAUSES of the given cells: their terms, largest difference first, the reference last.

    The reference is what the waterfall starts from: the step of the baseline for as many samples,
    or the compute of normal ranks without one. Rows of a cell sum to the difference of the step
    times. Terms are called moved at 5 % over all terms of a cell (Holm). The chance of a difference
    follows from its 95 % interval as of a normal variable.

    Args:
        waterfalls: WATERFALL of the first and of the second run.
        sides: All cells of both.
        pairs: The cells that are compared.
    """
    frames = [_of_cell(waterfalls, sides, pair) for pair in pairs]
    known = [frame for frame in frames if len(frame)]
    return MOVED_CAUSES.frame(pd.concat(known)) if known else MOVED_CAUSES.empty()


def _of_cell(
    waterfalls: tuple[pd.DataFrame, pd.DataFrame],
    sides: tuple[Cells, Cells],
    pair: tuple[SideCell, SideCell],
) -> pd.DataFrame:
    one, other = (
        _of_key(waterfall, cell.key) for waterfall, cell in zip(waterfalls, pair, strict=True)
    )
    rows = waterfall_diff(one, other)
    if rows.empty:
        return MOVED_CAUSES.empty()
    rows = rows.iloc[np.argsort(-rows["difference_ns"].abs().to_numpy(), kind="stable")]
    references = [
        _reference(cell, float(rows[name].sum()), cells)
        for cell, name, cells in zip(pair, ("one_ns", "other_ns"), sides, strict=True)
    ]
    rows = pd.concat([rows, _reference_row(*references)], ignore_index=True)
    chances = holm([_chance(row) for row in rows.to_dict("records")])
    named = [dict(zip(CELL_KEY, pair[0].key, strict=True))] * len(rows)
    moved = rows.assign(moved=[chance <= DEFAULT_LEVEL for chance in chances])
    return MOVED_CAUSES.frame(pd.concat([pd.DataFrame(named), moved], axis=1))


def _of_key(waterfall: pd.DataFrame, key: CellKey) -> pd.DataFrame:
    rows = waterfall[waterfall["term"] != RESIDUAL_TERM]
    for name, value in zip(CELL_KEY, key, strict=True):
        rows = rows[rows[name] == value]
    return rows


def _reference(cell: SideCell, lost_ns: float, cells: Cells) -> Interval:
    """Step time without the lost time, with the relative interval of the baseline's step time."""
    own_ns = math.exp(cell.spreads[STEP_TIME.name].value) - lost_ns
    baseline = next((one for one in cells.values() if _is_baseline(one, cell)), None)
    if baseline is None:
        return Interval(own_ns, NAN, NAN)
    log = baseline.spreads[STEP_TIME.name].interval()
    low, high = (math.exp(end - log.value) for end in (log.low, log.high))
    return Interval(own_ns, own_ns * low, own_ns * high)


def _is_baseline(one: SideCell, of: SideCell) -> bool:
    model, np_, engine, *toggles = one.key
    is_named = f"{engine} np={np_}" == of.baseline
    return is_named and model == of.key[0] and toggles == ["none", "average"]


def _reference_row(one: Interval, other: Interval) -> pd.DataFrame:
    difference = other.value - one.value
    low = difference - math.hypot(other.value - other.low, one.high - one.value)
    high = difference + math.hypot(other.high - other.value, one.value - one.low)
    return WATERFALL_DIFF.frame(
        [
            {
                "term": REFERENCE_TERM,
                "ranks": "",
                "phase": "",
                "pattern": "",
                "one_ns": one.value,
                "other_ns": other.value,
                "difference_ns": difference,
                "low_ns": low,
                "high_ns": high,
                "significant": low > 0 or high < 0,
            }
        ]
    )


def _chance(row: FrameRow) -> float:
    """The two-sided p-value of a difference, from its 95 % interval; 1 without one."""
    value = float(row["difference_ns"])
    reach = value - row["low_ns"] if value > 0 else row["high_ns"] - value
    if not reach > 0:
        return 1.0
    quantile = normal_quantile((1 + CONFIDENCE) / 2)
    return 2 * normal_below(-quantile * abs(value) / float(reach))
