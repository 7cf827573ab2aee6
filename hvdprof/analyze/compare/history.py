"""A series of runs of the same cells: where a metric changed, and by how much.

E-divisive: D. S. Matteson and N. A. James, "A nonparametric approach for multiple change point
analysis of multivariate data", Journal of the American Statistical Association 109 (2014). As in
Hunter (M. Fleming et al., "Hunter: using change point detection to hunt for performance
regressions", ICPE 2023), splits are found at a weak level and then held against Student's t between
neighbouring segments: a rise that falls back later is lost at a strong level.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.compare.comparison import ComparedSide, run_reasons, side_name
from hvdprof.analyze.compare.setting_diffs import setting_diffs
from hvdprof.analyze.compare.sides import CellKey, SideCell
from hvdprof.analyze.stats.distributions import student_below
from hvdprof.analyze.stats.uncertainty import Interval
from hvdprof.errors import UnreadableInputError
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import CELL_KEY, cell_label
from hvdprof.model.results.comparison import HISTORY, History, Metric, size_text

LEAST = 4
"""Values on either side of a change point."""

PERMUTATIONS = 399
SPLIT_LEVEL = 0.1
_LEVEL = 0.001
_SEED = 20261122
_NOT_COMPARABLE = " is not comparable with the run before: "


def history(sides: Sequence[ComparedSide], metric: Metric, margin: float) -> History:
    """The series of a metric over runs, in order of their time.

    1.  Change points of each cell by E-divisive, over the value of each run.
    2.  Those whose size is at most the margin are dropped: they do not matter.
    3.  After the last of them, where too few runs lie on either side for another: the largest gap
        beyond the margin, the intervals and the spread of the runs is a suspected change.

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
    has_metric = [
        any(metric.name in cell.spreads for cell in side.cells.values()) for side in ordered
    ]
    followed = list(itertools.compress(ordered, has_metric))
    notes = (
        *(
            f"{side.name} is left out: it has no {metric.title}."
            for side, has in zip(ordered, has_metric, strict=True)
            if not has
        ),
        *(
            f"{after.name}{_NOT_COMPARABLE}{reasons}."
            for before, after in itertools.pairwise(followed)
            if (reasons := _differing(before, after))
        ),
    )
    frame = HISTORY.frame(rows)
    launches = {cell.num_launches for side in ordered for cell in side.cells.values()}
    few = "one launch each" if launches == {1} else f"{LEAST} runs on either side would confirm it"
    return History(metric, _sentence(frame, metric, few, followed), frame, notes)


def _differing(before: ComparedSide, after: ComparedSide) -> str:
    """Why two runs are not comparable; empty where they are."""
    if before.manifest is None or after.manifest is None:
        return ""
    diffs = setting_diffs(before.manifest, after.manifest)
    # What other processes took in one run of many is noise of the series.
    return "; ".join(run_reasons(before.manifest, after.manifest, diffs, is_paired=True))


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
    intervals = [spread.interval() for _, spread in own]
    suspected = _suspected(intervals, max(found, default=0), limit)
    sizes = suspected | found
    rows: list[dict[str, object]] = []
    scale, growth = (math.exp, math.expm1) if metric.is_ratio else (float, float)
    for place, ((side, _), interval) in enumerate(zip(own, intervals, strict=True)):
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
                "is_suspected": place in suspected,
                "change": growth(sizes[place]) if place in sizes else math.nan,
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


def _suspected(intervals: Sequence[Interval], start: int, limit: float) -> dict[int, float]:
    """The place and size of a change that too few runs confirm; empty without one."""
    values = np.array([one.value for one in intervals])
    lows, highs = (
        np.fmin(values, [one.low for one in intervals]),
        np.fmax(values, [one.high for one in intervals]),
    )
    found: dict[int, float] = {}
    for place in range(start + 1, len(values)):
        if min(place - start, len(values) - place) >= LEAST:
            # Tested, and no change.
            continue
        before, after = slice(start, place), slice(place, len(values))
        gap = max(lows[after].min() - highs[before].max(), lows[before].min() - highs[after].max())
        noise = max(np.ptp(values[before]), np.ptp(values[after]))
        size = float(values[after].mean() - values[before].mean())
        if gap > noise and abs(size) > limit:
            found, limit = {place: size}, abs(size)
    return found


def _value(cell: SideCell, metric: Metric) -> float:
    spread = cell.spreads.get(metric.name)
    return math.nan if spread is None else spread.value


def _sentence(rows: pd.DataFrame, metric: Metric, few: str, sides: Sequence[ComparedSide]) -> str:
    changes = rows[rows["is_change"]].to_dict("records")
    suspected = rows[rows["is_suspected"]].to_dict("records")
    if suspected and not changes:
        largest = max(suspected, key=lambda row: abs(float(row["change"])))
        doubt = f"changed, not confirmed ({few})"
        return f"{_change(largest, metric)}: {doubt}.{_why(largest, sides)}"
    if not changes:
        most = int(rows.groupby(list(CELL_KEY), observed=True).size().max())
        least = 2 * LEAST
        few = f" Change points need {least} runs of a cell: {least - most} more." * (most < least)
        return f"No change of the {metric.title} beyond the margin found in {most} runs.{few}"
    worse = [row for row in changes if metric.worse * float(row["change"]) > 0]
    worst = max(worse or changes, key=lambda row: abs(float(row["change"])))
    more = f" {len(changes) - 1} more changes." if len(changes) > 1 else ""
    return f"{_change(worst, metric)}.{_why(worst, sides)}{more}"


def _why(row: FrameRow, sides: Sequence[ComparedSide]) -> str:
    """That the run is not comparable with the one before that has the cell, or empty."""
    key = tuple(row[name] for name in CELL_KEY)
    own = [side for side in sides if key in side.cells]
    for before, after in itertools.pairwise(own):
        if (side_name(after).created_at, after.name) == (row["time"], row["run"]):
            reasons = _differing(before, after)
            return f" That run{_NOT_COMPARABLE}{reasons}." if reasons else ""
    return ""


def _change(row: FrameRow, metric: Metric) -> str:
    where = f"from {row['run']} on" + (f" ({row['commit'][:9]})" if row["commit"] else "")
    return f"{cell_label(row)}: {metric.title} {size_text(float(row['change']), metric)} {where}"


def change_points(values: NDArray[np.float64]) -> list[int]:
    """The places from which on the distribution differs, in order.

    1.  Segments are split at the place of the largest energy statistic, as long as a permutation
        test of that statistic over all segments is significant at 10 %.
    2.  Places whose neighbouring segments do not differ at 0.1 % (Welch's t) are dropped again, the
        least significant first.

    Args:
        values: In order of time, without NaN.
    """
    found = _splits(values)
    while found:
        bounds = [0, *found, len(values)]
        chances = [
            _chance(values[a:b], values[b:c])
            for a, b, c in zip(bounds[:-2], bounds[1:-1], bounds[2:], strict=True)
        ]
        weakest = int(np.argmax(chances))
        if chances[weakest] <= _LEVEL:
            break
        del found[weakest]
    return found


def _chance(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """The two-sided p-value of equal means (Welch)."""
    parts = [float(side.var(ddof=1)) / len(side) for side in (before, after)]
    variance, difference = sum(parts), abs(float(after.mean() - before.mean()))
    if variance == 0:
        return 0.0 if difference > 0 else 1.0
    squares = sum(
        part**2 / (len(one) - 1) for part, one in zip(parts, (before, after), strict=True)
    )
    return 2 * student_below(variance**2 / squares, -difference / math.sqrt(variance))


def _splits(values: NDArray[np.float64]) -> list[int]:
    random = np.random.default_rng(_SEED)
    found: list[int] = []
    while True:
        bounds = [0, *found, len(values)]
        segments = [values[a:b] for a, b in itertools.pairwise(bounds)]
        best = [_best_split(segment) for segment in segments]
        number = max(range(len(best)), key=lambda index: best[index][0])
        largest, place = best[number]
        if not largest > 0 or not _is_significant(segments, largest, random):
            return found
        found = sorted([*found, bounds[number] + place])


def _is_significant(
    segments: list[NDArray[np.float64]], largest: float, random: np.random.Generator
) -> bool:
    """Whether values shuffled within their segments rarely reach the statistic."""
    reached = sum(
        max(_best_split(random.permutation(segment))[0] for segment in segments) >= largest
        for _ in range(PERMUTATIONS)
    )
    return (reached + 1) / (PERMUTATIONS + 1) <= SPLIT_LEVEL


def _best_split(values: NDArray[np.float64]) -> tuple[float, int]:
    """The largest energy statistic of a split, and its place; 0 where the segment is too short.

    The values before a place are held against those from it to any end, not to the last value
    alone: what rises and falls again has its end there.
    """
    num = len(values)
    if num < 2 * LEAST:
        return 0.0, 0
    distances = np.abs(values[:, None] - values[None, :])
    corner = np.zeros((num + 1, num + 1))
    corner[1:, 1:] = np.cumsum(np.cumsum(distances, axis=0), axis=1)
    place, end = np.meshgrid(np.arange(num + 1), np.arange(num + 1), indexing="ij")
    before, after = place, end - place
    is_split = (before >= LEAST) & (after >= LEAST)
    before, after = np.where(is_split, before, LEAST), np.where(is_split, after, LEAST)
    left = corner[place, place]
    right = corner[end, end] - 2 * corner[place, end] + left
    across = corner[place, end] - left
    energy = 2 * across / (before * after)
    energy -= left / (before * (before - 1)) + right / (after * (after - 1))
    statistic = np.where(is_split, before * after / (before + after) * energy, 0.0)
    best = int(statistic.argmax())
    return float(statistic.flat[best]), best // (num + 1)
