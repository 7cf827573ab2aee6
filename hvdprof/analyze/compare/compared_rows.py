"""Rows of COMPARED_CELLS and COMPARED_POOLED: the changes of cells, held against margins."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from hvdprof.analyze.compare.cell_changes import CellChange, pooled_change
from hvdprof.analyze.compare.outcomes import (
    change_interval,
    detectable_change,
    family_outcomes,
    is_known,
    launches_needed,
    negative,
)
from hvdprof.analyze.stats.uncertainty import Spread
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.results.comparison import METRICS, ComparisonOutcome, Metric
from hvdprof.model.tables.comparison_tables import COMPARED_CELLS, COMPARED_POOLED

UNKNOWN_SPREAD = "one launch: the variation between launches is unknown"
_LARGEST_LOG = 50.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What changes are held against.

    Attributes:
        margins: The margin of each metric by its name.
        level: The one-sided level of the tests.
        gated: Names of the metrics of conditions: their tests keep the level together.
    """

    margins: Mapping[str, float]
    level: float
    gated: frozenset[str] = frozenset()


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
    judged = _judged(changes, reasons, limits)
    rows = [
        row
        for metric in METRICS
        for row in _rows(_of_metric(metric, changes, reasons), judged[metric.name], limits)
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
    judged = _judged(changes, reasons, limits)
    for metric in METRICS:
        found = judged[metric.name]
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
    """The outcomes of the comparable cells by one metric; the mean where there are several.

    ``num_tests`` counts the tests that keep the level together with these.
    """

    of_cells: list[ComparisonOutcome]
    mean: Spread | None
    of_mean: ComparisonOutcome
    num_tests: int


def _judged(
    changes: Sequence[Sequence[CellChange]], reasons: Sequence[str], limits: Limits
) -> dict[str, _Judged]:
    """By metric. Cells and their mean are one family, with those of other conditions of a gate."""
    known = {
        metric.name: [
            change for change, reason in _of_metric(metric, changes, reasons) if not reason
        ]
        for metric in METRICS
    }
    means = {name: pooled_change(own) if len(own) > 1 else None for name, own in known.items()}
    gated = [metric for metric in METRICS if metric.name in limits.gated]
    families = [gated, *([metric] for metric in METRICS if metric not in gated)]
    judged: dict[str, _Judged] = {}
    for family in families:
        tests = [
            (_worsening(metric, change), _scaled(metric, limits.margins[metric.name]))
            for metric in family
            for change in _tested(known[metric.name], means[metric.name])
        ]
        found = iter(family_outcomes(tests, limits.level))
        for metric in family:
            own, mean = known[metric.name], means[metric.name]
            judged[metric.name] = _Judged(
                of_cells=[next(found) for _ in own],
                mean=mean,
                of_mean=ComparisonOutcome.INCONCLUSIVE if mean is None else next(found),
                num_tests=len(tests),
            )
    return judged


def _tested(known: Sequence[CellChange], mean: Spread | None) -> list[Spread]:
    return [*(cell.change for cell in known), *([] if mean is None else [mean])]


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
    changes: Sequence[tuple[CellChange, str]], judged: _Judged, limits: Limits
) -> list[dict[str, object]]:
    own = replace(limits, level=limits.level / max(judged.num_tests, 1))
    found = iter(judged.of_cells)
    return [
        _row(
            change,
            reason,
            (limits, own),
            ComparisonOutcome.NOT_COMPARABLE if reason else next(found),
        )
        for change, reason in changes
    ]


def _row(
    change: CellChange, reason: str, limits: tuple[Limits, Limits], outcome: ComparisonOutcome
) -> dict[str, object]:
    """A row; ``limits`` are those of its interval, and of one test among all of its family."""
    metric, design, level = change.metric, change.design, limits[1].level
    margin = limits[0].margins[metric.name]
    worsening, scaled = _worsening(metric, change.change), _scaled(metric, margin)
    is_open = outcome is ComparisonOutcome.INCONCLUSIVE
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
