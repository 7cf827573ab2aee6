"""The step time of a cell from its launches, with its error.

A cell is a model at a number of ranks under an engine with its toggles, in one mode.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from hvdprof.analyze.stats.uncertainty import NAN, LogEstimate
from hvdprof.model.cell_key import CELL_KEY, has_no_toggles
from hvdprof.rundir.manifest import Mode
from hvdprof.rundir.plan import TORCH_ENGINE

_LEAST_DEGREES = 2.0


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """The names of a cell, as in SCALING."""

    model: str
    np: int
    engine: str
    compression: str
    reduction: str
    batch_size: int
    mode: str

    @property
    def is_plain_torch(self) -> bool:
        """Whether it ran without Horovod."""
        return self.engine == TORCH_ENGINE

    @property
    def is_base(self) -> bool:
        """Whether no toggle is on."""
        return has_no_toggles(self.key)

    @property
    def key(self) -> dict[str, object]:
        """Its columns in tables: ``model.cell_key.CELL_KEY``."""
        return {name: getattr(self, name) for name in CELL_KEY}

    def in_mode(self, mode: str) -> "Cell":
        """The same cell in another mode."""
        return replace(self, mode=mode)


@dataclass(frozen=True, slots=True)
class CellTime:
    """A cell's launches (``pass_id``, ``segment``) and the logarithm of its step time in ns.

    ``by_repeat`` holds the logarithm of each repeat where all its launches took turns with those of
    other cells, else nothing.
    """

    cell: Cell
    launches: tuple[tuple[str, str], ...]
    log_step_time: LogEstimate
    num_steps: int
    oversubscribed: bool
    pinned: bool
    by_repeat: Mapping[int, float] = field(default_factory=dict)


def cell_times(launches: pd.DataFrame, segments: pd.DataFrame) -> dict[Cell, CellTime]:
    """The step time of every cell with a finished launch, in the order of the segments.

    1.  The launch is the unit: the value is the mean of the logarithms of the launch means.
    2.  Few cells have more than three launches, so the spread of launches is pooled twice: over all
        cells of the same number of ranks, and over all cells of the same model. The largest of
        these and of the cell's own spread counts, with its degrees of freedom (``own_degrees`` for
        the cell's own).
    3.  The error is never below the error of the steps within the launches.
    4.  If no cell of that number of ranks or model has two launches, only 3 is available.
    """
    launches_of: dict[Cell, list[_Launch]] = {}
    for launch in _launches(launches, segments):
        launches_of.setdefault(launch.cell, []).append(launch)
    pools: dict[str, _Pool] = {}
    for own in launches_of.values():
        for name in _pools_of(own):
            pools.setdefault(name, _Pool(name)).add(own)
    return {
        cell: CellTime(
            cell=cell,
            launches=tuple(launch.key for launch in own),
            log_step_time=_estimate(own, [pools[name] for name in _pools_of(own)]),
            num_steps=sum(launch.num_steps for launch in own),
            oversubscribed=any(launch.oversubscribed for launch in own),
            pinned=all(launch.pinned for launch in own),
            by_repeat=_by_repeat(own),
        )
        for cell, own in launches_of.items()
    }


def _by_repeat(own: "Sequence[_Launch]") -> dict[int, float]:
    by_repeat = {launch.repeat: launch.log_time for launch in own}
    is_paired = all(launch.took_turns for launch in own) and len(by_repeat) == len(own)
    return by_repeat if is_paired else {}


def _pools_of(own: "Sequence[_Launch]") -> tuple[str, str]:
    cell = own[0].cell
    # Ranks that share cores vary far more, which is no estimate for cells that do not.
    crowd = " oversubscribed" if own[0].oversubscribed else ""
    return f"np={cell.np}", f"model={cell.model}{crowd}"


def own_degrees(num: int, pooled: Sequence[float]) -> float:
    """Degrees of freedom of the spread of a cell's own launches.

    They are ``num - 1``, and at least 2 where a pool has 2: one degree is not informative, and the
    largest of several spreads is above the true one more often than not. Where the cell's own two
    launches are all that is known, the one degree counts: with two, 85 % of the 95 % intervals
    cover the truth.

    Args:
        num: Number of launches, at least 2.
        pooled: Degrees of freedom of the pools that the cell belongs to.
    """
    return max(num - 1.0, min(_LEAST_DEGREES, max(pooled, default=1.0)))


def throughput_cells(times: Mapping[Cell, CellTime]) -> list[CellTime]:
    """The cells for efficiencies: those in throughput mode."""
    return [time for cell, time in times.items() if cell.mode == Mode.THROUGHPUT]


@dataclass(frozen=True, slots=True)
class _Launch:
    cell: Cell
    key: tuple[str, str]
    num_steps: int
    log_time: float
    variance: float
    degrees: float
    oversubscribed: bool
    pinned: bool
    repeat: int
    took_turns: bool


@dataclass(slots=True)
class _Pool:
    name: str
    squares: float = 0.0
    degrees: int = 0

    def add(self, launches: Sequence[_Launch]) -> None:
        self.squares += _squares(launches)
        self.degrees += len(launches) - 1

    @property
    def variance(self) -> float:
        return self.squares / self.degrees if self.degrees else 0.0


def _launches(launches: pd.DataFrame, segments: pd.DataFrame) -> Iterator[_Launch]:
    segment_of = {
        (str(row["pass_id"]), str(row["segment"])): row for row in segments.to_dict("records")
    }
    for row in launches.to_dict("records"):
        key = (str(row["pass_id"]), str(row["segment"]))
        if not row["step_time_ns"] > 0:
            continue
        segment, mean = segment_of[key], row["step_time_ns"]
        yield _Launch(
            cell=Cell(
                model=str(segment["model"]),
                np=int(segment["size"]),
                engine=str(segment["engine"]),
                compression=str(segment["compression"]),
                reduction=str(segment["reduction"]),
                batch_size=int(segment["batch_size"]),
                mode=str(segment["mode"]),
            ),
            key=key,
            num_steps=int(row["num_steps"]),
            log_time=math.log(mean),
            variance=(row["step_time_error_ns"] / mean) ** 2,
            degrees=max(row["num_effective_steps"] - 1, 0.0),
            oversubscribed=bool(segment["oversubscribed"]),
            pinned=bool(segment["pinned"]),
            repeat=int(segment["repeat"]),
            took_turns=bool(row["num_turns"]),
        )


def _squares(launches: Sequence[_Launch]) -> float:
    """The sum of squared distances from the mean, of the logarithms of the launch means."""
    mean = sum(launch.log_time for launch in launches) / len(launches)
    return sum((launch.log_time - mean) ** 2 for launch in launches)


def _estimate(own: Sequence[_Launch], pools: Sequence[_Pool]) -> LogEstimate:
    num = len(own)
    value = sum(launch.log_time for launch in own) / num
    within = sum(launch.variance for launch in own) / num**2
    known = [pool for pool in pools if pool.degrees]
    if not known:
        degrees = sum(launch.degrees for launch in own)
        return LogEstimate(value, math.sqrt(within) if degrees >= 1 else NAN, degrees)
    widest = max(known, key=lambda pool: pool.variance)
    estimate = (widest.variance, float(widest.degrees), widest.name)
    if num > 1:
        alone = _squares(own) / (num - 1)
        degrees = own_degrees(num, [float(pool.degrees) for pool in known])
        estimate = max((alone, degrees, ""), estimate, key=lambda spread: spread[:2])
    variance, degrees, pool = estimate
    if not math.isnan(within):
        variance = max(variance, within * num)
    return LogEstimate(value, math.sqrt(variance / num), degrees, pool)
