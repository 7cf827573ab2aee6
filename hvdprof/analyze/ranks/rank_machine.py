"""What the machine did to each rank in its steady steps, and in which of them it differs.

Equal ranks have the highest value of a window equally often. So where one has it in more windows
than chance gives, the machine treated it differently. That alone is no cause: how much it explains
is judged where a straggler was found.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.distributions import binomial_tail, student_quantile
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.arrays import Float64s
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.rundir.recording.sample_format import GROWTH_PARTS

_SUMMED = ("start_ns", "duration_ns", "mean", "low", "high")

MOST_BESIDE = 0.5
"""Share between steps, as in turns of other launches, from which on a window says nothing."""


def rank_machine(
    samples: tuple[pd.DataFrame, ...], works: Mapping[LaunchKey, StepWork]
) -> pd.DataFrame:
    """RANK_MACHINE.

    Args:
        samples: RANK_SAMPLES and DEVICE_SAMPLES.
        works: The steady steps of each launch.
    """
    rows: list[dict[str, object]] = []
    of_passes = [
        (str(pass_id), str(measure), _windows_of(own))
        for table in samples
        for (pass_id, measure), own in table.groupby(["pass_id", "measure"], observed=True)
    ]
    for (pass_id, segment), work in works.items():
        if not len(work.steps):
            continue
        begin, end = float(work.begin.min()), float(work.end.max())
        step_ns = float(work.step_times.mean())
        beside = np.stack([work.end[:-1].max(axis=1), work.begin[1:].min(axis=1)], axis=1)
        beside = beside[beside[:, 1] > beside[:, 0]]
        for sampled, measure, own in of_passes:
            if sampled == pass_id:
                head = {"pass_id": pass_id, "segment": segment, "measure": measure}
                rows += [head | row for row in _rows(own, begin, end, step_ns, beside)]
    return RANK_MACHINE.frame(rows)


def _windows_of(samples: pd.DataFrame) -> dict[int, Float64s]:
    """The windows of each rank, of the samples of one measure."""
    numbers = samples["rank"].to_numpy()
    order = np.argsort(numbers, kind="stable")
    ranks, firsts = np.unique(numbers[order], return_index=True)
    columns = [samples[name].to_numpy(dtype=np.float64)[order] for name in _SUMMED]
    parts = np.split(np.stack(columns, axis=1), firsts[1:])
    return dict(zip(ranks.tolist(), parts, strict=True))


def _rows(
    windows_of: Mapping[int, Float64s], begin: float, end: float, step_ns: float, beside: Float64s
) -> Iterator[dict[str, object]]:
    """One row per rank, of the windows that lie in the steady steps and not ``beside`` them."""
    ranks: dict[int, Float64s] = {}
    for rank, windows in windows_of.items():
        middle, ends = windows[:, 0] + windows[:, 1] / 2, windows[:, 0] + windows[:, 1]
        is_in = (middle >= begin) & (middle <= end)
        # A script frees its memory behind the last step, where a short window has its sample.
        for rule in (_beside(windows, beside) < MOST_BESIDE, ends <= end):
            is_in = is_in & rule if (is_in & rule).any() else is_in
        inside = windows[is_in]
        if len(inside):
            ranks[rank] = inside
    if not ranks:
        return
    grid = _on_one_grid(list(ranks.values()))
    is_compared = len(grid) > 0 and len(ranks) > 1
    all_above = (grid > _of_others(grid, np.maximum, -np.inf)).sum(axis=0)
    all_below = (grid < _of_others(grid, np.minimum, np.inf)).sum(axis=0)
    means = _of_others(grid.sum(axis=0, keepdims=True), np.add, 0.0)[0]
    means /= max(len(grid) * (len(ranks) - 1), 1)
    for place, (rank, windows) in enumerate(ranks.items()):
        above, below = (int(number[place]) * is_compared for number in (all_above, all_below))
        yield {
            "rank": rank,
            "windows": len(windows),
            "mean": float(np.average(windows[:, 2], weights=np.maximum(windows[:, 1], 1))),
            "low": float(windows[:, 3].min()),
            "high": float(windows[:, 4].max()),
            "others": float(means[place]) if is_compared else NAN,
            **_growth(windows, step_ns),
            "num_above": above,
            "num_below": below,
            "chance": _chance(max(above, below), len(grid), len(ranks)) if is_compared else NAN,
        }


def _beside(windows: Float64s, beside: Float64s) -> Float64s:
    """The share of each window that lies between steps."""
    starts, ends = windows[:, :1], windows[:, :1] + windows[:, 1:2]
    common = np.minimum(ends, beside[:, 1]) - np.maximum(starts, beside[:, 0])
    return np.asarray(np.maximum(common, 0.0).sum(axis=1) / np.maximum(windows[:, 1], 1.0))


def _of_others(grid: Float64s, joined: np.ufunc, empty: float) -> Float64s:
    """[windows, ranks] Of each rank, what joins the values of all others in a window."""
    edge = np.full((len(grid), 1), empty)
    before = joined.accumulate(np.hstack((edge, grid[:, :-1])), axis=1)
    behind = joined.accumulate(np.hstack((edge, grid[:, :0:-1])), axis=1)[:, ::-1]
    return np.asarray(joined(before, behind), dtype=np.float64)


def _on_one_grid(ranks: list[Float64s]) -> Float64s:
    """[windows, ranks] The means of each rank in the windows that all of them cover.

    Ranks begin their windows at moments of their own: the values of each are integrated over time,
    and read at the ends of the windows of the first one.
    """
    starts = max(float(own[0, 0]) for own in ranks)
    ends = min(float(own[-1, 0] + own[-1, 1]) for own in ranks)
    edges = np.append(ranks[0][:, 0], ranks[0][-1, 0] + ranks[0][-1, 1])
    edges = np.unique(np.clip(edges, starts, ends))
    if len(edges) < 2:
        return np.empty((0, len(ranks)))
    means = []
    for own in ranks:
        times = np.append(own[:, 0], own[-1, 0] + own[-1, 1])
        sums = np.append(0.0, np.cumsum(own[:, 2] * np.diff(times)))
        means.append(np.diff(np.interp(edges, times, sums)) / np.diff(edges))
    return np.stack(means, axis=1)


def _chance(most: int, num_windows: int, num_ranks: int) -> float:
    """How often any of equal ranks is first in so many windows, or last in so many."""
    tail = binomial_tail(np.array([most]), num_windows, 1 / num_ranks)[0]
    return float(min(2 * num_ranks * tail, 1.0))


def _growth(windows: Float64s, step_ns: float) -> dict[str, float]:
    """Growth per step with its 95 % interval, by Student's t over the growths between parts.

    These differences are an interval of a straight line and of a random walk alike: what memory
    does after a while is neither noise around a line.
    """
    names = ("growth", "growth_low", "growth_high", "last_growth")
    if len(windows) < 2 * GROWTH_PARTS:
        return dict.fromkeys(names, NAN)
    parts = np.array_split(windows, GROWTH_PARTS)
    times = np.array([(part[:, 0] + part[:, 1] / 2).mean() for part in parts])
    levels = np.array([part[:, 2].mean() for part in parts])
    rates = np.diff(levels) / np.diff(times) * step_ns
    mean = float(rates.mean())
    half = student_quantile(len(rates) - 1, 0.975) * float(rates.std(ddof=1)) / len(rates) ** 0.5
    return dict(zip(names, (mean, mean - half, mean + half, float(rates[-1])), strict=True))
