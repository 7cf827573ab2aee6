"""Ratios of step times: to the baseline, to a trace pass, between cells paired by repeat.

Launches that took turns saw the same machine: what slows or speeds all of them cancels out of the
difference of their logarithms. The repeat, with fresh launches, stays the unit that is repeated, so
that the spread of these differences holds what launches differ by.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hvdprof.analyze.stats.uncertainty import NAN, Interval, LogEstimate, difference
from hvdprof.analyze.steps.cells import Cell, CellTime, own_degrees
from hvdprof.model.cell_key import ENGINE_TITLES
from hvdprof.rundir.manifest import Mode


def trace_overhead(cell: Cell, times: Mapping[Cell, CellTime]) -> Interval:
    """Step time in the trace passes divided by that in the throughput passes, minus 1.

    NaN where one of the two is not measured.
    """
    traced, free = times.get(cell.in_mode(Mode.TRACE)), times.get(cell.in_mode(Mode.THROUGHPUT))
    if traced is None or free is None:
        return Interval(NAN, NAN, NAN)
    ratio = difference(traced.log_step_time, free.log_step_time).interval()
    return Interval(ratio.value - 1, ratio.low - 1, ratio.high - 1)


def baselines(cells: Sequence[CellTime]) -> dict[str, CellTime]:
    """The baseline of each model: the first of these that was measured, without toggles.

    1.  plain PyTorch on one rank, the alternative to Horovod;
    2.  Horovod on one rank;
    3.  Horovod on the smallest measured number of ranks.

    Without Horovod, DDP takes its place; with both, both refer to the same baseline. Oversubscribed
    cells are used only if there is no other.
    """
    chosen: dict[str, CellTime] = {}
    for model in dict.fromkeys(time.cell.model for time in cells):
        candidates = [time for time in cells if time.cell.model == model and time.cell.is_base]
        valid = [time for time in candidates if not time.oversubscribed] or candidates
        if valid:
            chosen[model] = min(valid, key=_rank_of)
    return chosen


def unscaled_baselines(cells: Sequence[CellTime]) -> set[Cell]:
    """The baselines of models that were measured at one number of ranks.

    They have no efficiency: 1 would read as a job that scales.
    """
    chosen = baselines(cells)
    sizes: dict[str, set[int]] = {}
    for time in cells:
        sizes.setdefault(time.cell.model, set()).add(time.cell.np)
    return {one.cell for model, one in chosen.items() if len(sizes[model]) == 1}


def baseline_name(baseline: CellTime) -> str:
    """Name of the baseline in tables, such as ``torch np=1``."""
    return f"{baseline.cell.engine} np={baseline.cell.np}"


def _rank_of(time: CellTime) -> tuple[int, int, int]:
    return time.cell.np, list(ENGINE_TITLES).index(time.cell.engine), time.cell.batch_size


@dataclass(slots=True)
class _Pool:
    squares: float = 0.0
    degrees: int = 0


class PairedRatios:
    """The spread of the paired differences of a run.

    Args:
        cells: The cells that are compared.
        baseline_of: The baseline of each model. The spread of the differences from it is pooled
            over cells of the same number of ranks, and over those of the same model.
    """

    def __init__(self, cells: Iterable[CellTime], baseline_of: Mapping[str, CellTime]) -> None:
        self._pools: dict[str, _Pool] = {}
        for time in cells:
            baseline = baseline_of.get(time.cell.model)
            if baseline is None or baseline.cell == time.cell:
                continue
            differences = _differences(baseline, time)
            for name in _pools_of(time) if len(differences) > 1 else ():
                pool = self._pools.setdefault(name, _Pool())
                pool.squares += _squares(differences)
                pool.degrees += len(differences) - 1

    def ratio(self, of: CellTime, to: CellTime) -> LogEstimate:
        """The logarithm of ``step time of / step time to``.

        1.  Paired where both have the same repeats, at least two, and took turns in all of them:
            the mean of the differences ``y_of - y_to`` of the repeats.
        2.  Its variance is the largest of the spread of these differences and of the two pooled
            ones, with the degrees of freedom of that one (``own_degrees`` for its own).
        3.  Otherwise the two step times count as independent.
        """
        differences = _differences(of, to)
        num = len(differences)
        if num < 2:
            return difference(of.log_step_time, to.log_step_time)
        pooled = list(self._pooled(max(of, to, key=lambda time: time.cell.np)))
        own = own_degrees(num, [degrees for _, degrees, _ in pooled])
        alone = (_squares(differences) / (num - 1), own, "")
        variance, degrees, pool = max([alone, *pooled], key=lambda spread: spread[:2])
        value = sum(differences) / num
        return LogEstimate(value, math.sqrt(variance / num), degrees, pool)

    def _pooled(self, cell: CellTime) -> Iterator[tuple[float, float, str]]:
        for name in _pools_of(cell):
            pool = self._pools.get(name)
            if pool is not None:
                yield pool.squares / pool.degrees, float(pool.degrees), name


def _differences(of: CellTime, to: CellTime) -> list[float]:
    a: Mapping[int, float] = of.by_repeat
    b: Mapping[int, float] = to.by_repeat
    return [a[repeat] - b[repeat] for repeat in a] if a and a.keys() == b.keys() else []


def _squares(differences: list[float]) -> float:
    mean = sum(differences) / len(differences)
    return sum((value - mean) ** 2 for value in differences)


def _pools_of(time: CellTime) -> tuple[str, str]:
    crowd = " oversubscribed" if time.oversubscribed else ""
    return f"np={time.cell.np}", f"model={time.cell.model}{crowd}"
