"""Rows of COMPARED_CELLS and COMPARED_POOLED: the changes of cells, held against margins.

Tested in ``tests/analyze/compare/test_comparison.py``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from hvdprof.analyze.compare.cell_changes import CellChange, pooled_change
from hvdprof.analyze.compare.outcomes import change_interval, is_known, negative, outcomes
from hvdprof.analyze.compare.power import detectable_change, launches_needed
from hvdprof.analyze.stats.launch_spread import Spread
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.comparison import METRICS, Metric, Outcome
from hvdprof.model.tables.comparison_tables import COMPARED_CELLS, COMPARED_POOLED

UNKNOWN_SPREAD = "one launch: the variation between launches is unknown"
_LARGEST_LOG = 50.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The margin of each metric by its name, and the one-sided level of the tests."""

    margins: Mapping[str, float]
    level: float


def compared_cells(
    changes: Sequence[Sequence[CellChange]], reasons: Sequence[str], limits: Limits
) -> pd.DataFrame:
    """COMPARED_CELLS: a row for each cell and metric, the cells in the given order.

    Args:
        changes: The changes of each cell.
        reasons: Why each cell is not comparable; empty where it is.
        limits: The margins, and the level of the tests.
    """
    order = {of_cell[0].key: place for place, of_cell in enumerate(changes) if of_cell}
    rows = [
        row
        for metric in METRICS
        for row in _rows(metric, _of_metric(metric, changes, reasons), limits)
    ]
    rows.sort(key=lambda row: order[tuple(row[name] for name in CELL_KEY)])
    return COMPARED_CELLS.frame(rows)


def compared_pooled(
    changes: Sequence[Sequence[CellChange]], reasons: Sequence[str], limits: Limits
) -> pd.DataFrame:
    """COMPARED_POOLED: a row for each metric that at least two comparable cells have.

    Args:
        changes: The changes of each cell.
        reasons: Why each cell is not comparable; empty where it is.
        limits: The margins, and the level of the tests.
    """
    rows = []
    for metric in METRICS:
        found = _judged(metric, _of_metric(metric, changes, reasons), limits)
        if found.mean is not None:
            rows.append(
                {
                    "metric": metric.name,
                    "num_cells": len(found.of_cells),
                    **_change(metric, found.mean, limits.level),
                    "margin": limits.margins[metric.name],
                    "outcome": found.of_mean.value,
                }
            )
    return COMPARED_POOLED.frame(rows)


@dataclass(frozen=True, slots=True)
class _Judged:
    """The outcomes of the comparable cells by one metric; the mean where there are several."""

    of_cells: list[Outcome]
    mean: Spread | None
    of_mean: Outcome


def _judged(metric: Metric, changes: Sequence[tuple[CellChange, str]], limits: Limits) -> _Judged:
    """Cells and their mean are one family: together they keep the level."""
    known = [change for change, reason in changes if not reason]
    mean = pooled_change(known) if len(known) > 1 else None
    family = [_worsening(metric, change.change) for change in known]
    family += [] if mean is None else [_worsening(metric, mean)]
    found = outcomes(family, _scaled(metric, limits.margins[metric.name]), limits.level)
    if mean is None:
        return _Judged(found, None, Outcome.INCONCLUSIVE)
    return _Judged(found[:-1], mean, found[-1])


def _of_metric(
    metric: Metric, changes: Sequence[Sequence[CellChange]], reasons: Sequence[str]
) -> list[tuple[CellChange, str]]:
    return [
        (change, reason)
        for of_cell, reason in zip(changes, reasons, strict=True)
        for change in of_cell
        if change.metric is metric
    ]


def _rows(
    metric: Metric, changes: Sequence[tuple[CellChange, str]], limits: Limits
) -> list[dict[str, object]]:
    judged = _judged(metric, changes, limits)
    num_tests = len(judged.of_cells) + (judged.mean is not None)
    own = replace(limits, level=limits.level / max(num_tests, 1))
    found = iter(judged.of_cells)
    return [
        _row(change, reason, (limits, own), Outcome.NOT_COMPARABLE if reason else next(found))
        for change, reason in changes
    ]


def _row(
    change: CellChange, reason: str, limits: tuple[Limits, Limits], outcome: Outcome
) -> dict[str, object]:
    """A row; ``limits`` are those of its interval, and of one test among all of the metric."""
    metric, design, level = change.metric, change.design, limits[1].level
    margin = limits[0].margins[metric.name]
    worsening, scaled = _worsening(metric, change.change), _scaled(metric, margin)
    is_open = outcome is Outcome.INCONCLUSIVE
    return {
        **dict(zip(CELL_KEY, change.key, strict=True)),
        "metric": metric.name,
        "unit": metric.unit,
        "first": change.first,
        "second": change.second,
        **_change(metric, change.change, limits[0].level),
        "margin": margin,
        "outcome": outcome.value,
        "detectable": _unscaled(metric, detectable_change(worsening, scaled, level)),
        "launches_needed": launches_needed(worsening, scaled, design, level) if is_open else None,
        "num_first": design.first,
        "num_second": design.second,
        "paired": design.is_paired,
        "reason": reason or ("" if is_known(change.change) else UNKNOWN_SPREAD),
    }


def _change(metric: Metric, change: Spread, level: float) -> dict[str, float]:
    interval = change_interval(change, level)
    return {
        "change": _unscaled(metric, interval.value),
        "change_low": _unscaled(metric, interval.low),
        "change_high": _unscaled(metric, interval.high),
    }


def _worsening(metric: Metric, change: Spread) -> Spread:
    return change if metric.worse > 0 else negative(change)


def _scaled(metric: Metric, margin: float) -> float:
    """The margin on the scale of changes: 5 % less is further from 1 than 5 % more."""
    if not metric.is_ratio:
        return margin
    return math.log1p(margin) if metric.worse > 0 else -math.log1p(-margin)


def _unscaled(metric: Metric, change: float) -> float:
    return math.expm1(min(change, _LARGEST_LOG)) if metric.is_ratio else change
