"""Launches of one cell in two runs, simulated, and what the comparison says has moved."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.compare.moved_causes import moved_causes
from hvdprof.analyze.compare.sides import SideCell
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.stats.uncertainty import Spread
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.results.comparison import DEFAULT_LEVEL, STEP_TIME
from tests.builders.step_works import PARTS_MS, simulated

KEY = ("mnist", 2, "horovod", "none", "average")


def launches(
    num: int,
    *,
    num_ranks: int = 2,
    extra_ms: Mapping[str, NDArray[np.float64] | float] | None = None,
    placement: float = 0.0,
    noise: float = 0.02,
    num_steps: int = 40,
    seed: int = 0,
) -> list[StepWork]:
    """So many launches of 95 ms of own work.

    Args:
        num: The launches.
        num_ranks: Ranks of each.
        extra_ms: Own time [ranks], by phase, that every step has besides.
        placement: Standard deviation of a rank's speed in forward and backward between launches.
        noise: Standard deviation of a phase between steps.
        num_steps: Steps of each.
        seed: Of the random numbers.
    """
    random = np.random.default_rng(seed)
    found = []
    for number in range(num):
        factor = placement * random.normal(size=num_ranks)
        added: dict[str, NDArray[np.float64] | float] = {
            phase: PARTS_MS[phase] * factor for phase in ("forward", "backward")
        }
        for phase, extra in (extra_ms or {}).items():
            added[phase] = added.get(phase, 0.0) + extra
        of_launch = {name: np.broadcast_to(one, num_ranks) for name, one in added.items()}
        launch = 1000 * seed + number
        found.append(simulated(num_steps, num_ranks, extra_ms=of_launch, noise=noise, seed=launch))
    return found


def compared(
    first: Sequence[StepWork],
    second: Sequence[StepWork],
    *,
    is_paired: bool = False,
    level: float = DEFAULT_LEVEL,
) -> pd.DataFrame:
    """MOVED_CAUSES of the launches of both runs; the number of a launch is its repeat."""
    sides = [
        {(f"p{number}", "s"): rank_times(work) for number, work in enumerate(one)}
        for one in (first, second)
    ]
    cells = [
        SideCell(
            KEY,
            len(times),
            {STEP_TIME.name: Spread(math.log(step_ns(one)), 1e-6, 2.0)},
            repeat_of={key: number for number, key in enumerate(times)},
        )
        for one, times in zip((first, second), sides, strict=True)
    ]
    return moved_causes(
        (lambda keys: {key: sides[0][key] for key in keys}, lambda keys: sides[1]),
        [(cells[0], cells[1])],
        is_paired=is_paired,
        level=level,
    )


def step_ns(works: Sequence[StepWork]) -> float:
    """The mean step time of launches, ns."""
    return float(np.mean([work.step_times.mean() for work in works]))
