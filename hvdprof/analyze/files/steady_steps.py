"""The steady steps of a standalone timeline, and the start-up before them.

Slow first steps otherwise outvote the steady ones: ranks compile, read their first data and connect
at different speeds.
"""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.change_point import best_splits, has_changed

LEAST_CONFIDENCE = 0.5
_LEAST_STEPS = 2
LEAST_SLOWDOWN = 1.2
"""Start-up is at least so much slower than the steady steps; smaller changes are jitter."""

SHORTEST_PAUSE_NS = 1_000_000_000
LEAST_STEPS_OF_PAUSE = 10

_LONGEST_SHARE = 1 / 3
_LEVEL = 0.01
_MAD_TO_SIGMA = 1.4826
_CLEAR_SIGMAS = 6.0


@dataclass(frozen=True, slots=True)
class SteadySteps:
    """The inferred steps of a timeline that are steady; none where steps are too uncertain.

    Attributes:
        num_startup: Steps of start-up; 0 where no step time shows any.
        steady: Numbers of the steady steps that hold all tensors. The first use of a tensor is
            warm-up, so the first step is never among them.
        startup: Numbers of the steps of start-up.
        from_ns: Start of the first step after start-up; ``None`` without start-up.
        step_ns: Median step time after start-up; ``None`` without certain steps.
        pause_ns: Sum of the pauses in which nothing is reduced for 1 s and 10 steps or more, after
            start-up.
    """

    num_startup: int = 0
    steady: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    startup: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    from_ns: int | None = None
    step_ns: float | None = None
    pause_ns: int = 0


def steady_steps(inferred: pd.DataFrame) -> SteadySteps:
    """Which steps are steady, from rows of INFERRED_STEPS of one file."""
    lengths = inferred.loc[inferred["complete"], "dur_ns"].dropna()
    if lengths.empty or float(inferred["confidence"].iloc[0]) < LEAST_CONFIDENCE:
        return SteadySteps()
    num = num_startup_steps(inferred)
    numbers = inferred["step"].to_numpy(np.int64)
    rest = inferred.iloc[max(num, 1) :]
    rest = rest[rest["complete"]]
    step_ns = float(lengths[lengths.index.isin(inferred.index[num:])].median())
    idle = (inferred["dur_ns"] - inferred["communication_ns"]).iloc[max(num, 1) :].dropna()
    return SteadySteps(
        num_startup=num,
        steady=rest["step"].to_numpy(np.int64),
        startup=numbers[:num],
        from_ns=int(inferred["start_ns"].iloc[num]) if num else None,
        step_ns=step_ns,
        pause_ns=int(idle[idle >= max(SHORTEST_PAUSE_NS, LEAST_STEPS_OF_PAUSE * step_ns)].sum()),
    )


def num_startup_steps(inferred: pd.DataFrame) -> int:
    """How many of the first steps are start-up; 0 where the step time has no such level.

    1.  The step times are split where the logarithms of their levels differ most.
    2.  The split is start-up if the steps before it are at least 20 % slower, significantly so at a
        level of 1 %, and at most a third of all.
    3.  Further steps belong to it as long as they are slower than the median of the rest by 6
        standard deviations (from the median absolute deviation) and by 20 %.

    Args:
        inferred: Rows of INFERRED_STEPS of one file, in their order.
    """
    lengths = inferred["dur_ns"].dropna().to_numpy(np.float64)
    if len(lengths) < 2 * _LEAST_STEPS or not (lengths > 0).all():
        return 0
    # From the last step to the first, so that the slow level is the later one.
    reversed_logs = np.log(lengths)[::-1]
    num_steady = int(best_splits(reversed_logs[:, None], _LEAST_STEPS)[0])
    num = len(lengths) - num_steady
    if num > _LONGEST_SHARE * len(lengths) or not _is_slower(lengths, num):
        return 0
    if not has_changed(reversed_logs, num_steady, _LEVEL):
        return 0
    return _extended(lengths, num)


def _is_slower(lengths: NDArray[np.float64], num: int) -> bool:
    slow, rest = float(np.median(lengths[:num])), float(np.median(lengths[num:]))
    return slow >= LEAST_SLOWDOWN * rest


def _extended(lengths: NDArray[np.float64], num: int) -> int:
    most = int(_LONGEST_SHARE * len(lengths))
    while num < most:
        rest = lengths[num + 1 :]
        middle = float(np.median(rest))
        sigma = _MAD_TO_SIGMA * float(np.median(np.abs(rest - middle)))
        if lengths[num] < max(LEAST_SLOWDOWN * middle, middle + _CLEAR_SIGMAS * sigma):
            break
        num += 1
    return num
