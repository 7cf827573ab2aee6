"""A series of runs of the same cells: where a metric changed, and by how much."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.compare.change_points import LEAST, change_points
from hvdprof.analyze.compare.comparison import ComparedSide, side_name
from hvdprof.analyze.compare.sides import CellKey, SideCell
from hvdprof.errors import UnreadableInputError
from hvdprof.model.cell_key import CELL_KEY, cell_label
from hvdprof.model.comparison import HISTORY, History, Metric, size_text


def history(sides: Sequence[ComparedSide], metric: Metric, margin: float) -> History:
    """The series of a metric over runs, in order of their time.

    1.  Change points of each cell by E-divisive, over the value of each run.
    2.  Those whose size is at most the margin are dropped: they do not matter.

    Args:
        sides: The runs, at least two.
        metric: What is followed.
        margin: Largest change that does not matter.

    Raises:
        UnreadableInputError: No cell is in two of the runs.
    """
    ordered = sorted(sides, key=lambda side: side_name(side).created_at)
    keys = list(dict.fromkeys(key for side in ordered for key in side.cells))
    rows = [row for key in keys for row in _rows(key, ordered, metric, margin)]
    if not rows:
        raise UnreadableInputError(
            f"No cell has a {metric.title} in two of these {len(sides)} runs.",
            hint="hvdprof analyze RUN shows the cells of a run.",
        )
    notes = tuple(
        f"{side.name} is left out: it has no {metric.title}."
        for side in ordered
        if not any(metric.name in cell.spreads for cell in side.cells.values())
    )
    frame = HISTORY.frame(rows)
    return History(metric, _sentence(frame, metric), frame, notes)


def _rows(
    key: CellKey, sides: Sequence[ComparedSide], metric: Metric, margin: float
) -> list[dict[str, object]]:
    own = [
        (side, side.cells[key].spreads[metric.name])
        for side in sides
        if key in side.cells and not math.isnan(_value(side.cells[key], metric))
    ]
    if len(own) < 2:
        return []
    values = np.array([spread.value for _, spread in own])
    limit = math.log1p(margin) if metric.is_ratio else margin
    found = _large_enough(values, change_points(values), limit)
    rows: list[dict[str, object]] = []
    scale, growth = (math.exp, math.expm1) if metric.is_ratio else (float, float)
    for place, (side, spread) in enumerate(own):
        interval = spread.interval()
        name = side_name(side)
        rows.append(
            {
                **dict(zip(CELL_KEY, key, strict=True)),
                "time": name.created_at,
                "commit": name.commit,
                "run": name.name,
                "value": scale(interval.value),
                # No metric is below 0; a symmetric interval of few launches can reach there.
                "low": max(scale(interval.low), 0.0),
                "high": scale(interval.high),
                "segment": sum(change <= place for change in found),
                "is_change": place in found,
                "change": growth(found[place]) if place in found else math.nan,
            }
        )
    return rows


def _large_enough(
    values: NDArray[np.float64], places: Sequence[int], limit: float
) -> dict[int, float]:
    """The change points beyond the margin, each with the difference of the means around it."""
    remaining = list(places)
    while True:
        bounds = [0, *remaining, len(values)]
        means = [values[a:b].mean() for a, b in itertools.pairwise(bounds)]
        sizes = {place: float(means[i + 1] - means[i]) for i, place in enumerate(remaining)}
        small = [place for place, size in sizes.items() if abs(size) <= limit]
        if not small:
            return sizes
        # The smallest alone: without it the others are differences of longer segments.
        remaining.remove(min(small, key=lambda place: abs(sizes[place])))


def _value(cell: SideCell, metric: Metric) -> float:
    spread = cell.spreads.get(metric.name)
    return math.nan if spread is None else spread.value


def _sentence(rows: pd.DataFrame, metric: Metric) -> str:
    changes = rows[rows["is_change"]].to_dict("records")
    if not changes:
        most = int(rows.groupby(list(CELL_KEY), observed=True).size().max())
        few = "" if most >= 2 * LEAST else f" Change points need {2 * LEAST} runs of a cell."
        return f"No change of the {metric.title} beyond the margin found in {most} runs.{few}"
    worse = [row for row in changes if metric.worse * float(row["change"]) > 0]
    worst = max(worse or changes, key=lambda row: abs(float(row["change"])))
    where = f"from {worst['run']} on" + (f" ({worst['commit'][:9]})" if worst["commit"] else "")
    more = f" {len(changes) - 1} more changes." if len(changes) > 1 else ""
    size = size_text(float(worst["change"]), metric)
    return f"{cell_label(worst)}: {metric.title} {size} {where}.{more}"
