"""Ratios of step times of cells, paired by repeat where their launches took turns.

Launches that took turns saw the same machine: what slows or speeds all of them cancels out of the
difference of their logarithms. The repeat, with fresh launches, stays the unit that is repeated, so
that the spread of these differences holds what launches differ by.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hvdprof.analyze.stats.uncertainty import LogEstimate, difference
from hvdprof.analyze.steps.cells import CellTime, own_degrees


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
