"""What one kind of line with a rate says, and the numbers in such a line.

Tested in ``tests/ingest/rates/test_rate_formats.py``.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeGuard, TypeVar

import numpy as np
import pandas as pd

from hvdprof.model.arrays import Bools

SAMPLES, TOKENS, STEPS = "samples/s", "tokens/s", "steps/s"
RANK, JOB, UNSTATED = "rank", "job", ""
STEP, MEAN, TOTAL, ITERATIONS = "step", "rank", "job", "iterations"
"""Scopes: some iterations, the mean of a rank in the end, what stands in the end for all ranks; of
ITERATIONS, the mean length of an iteration since the line before, as TRAINING_ITERATIONS."""

_ROUNDING = 0.05
"""Two ways to the same number may differ by so much: both are made of rounded numbers."""


@dataclass(frozen=True, slots=True)
class RateFormat:
    """One kind of line that states a rate.

    Attributes:
        tool: What prints it.
        mark: How such a line begins, behind any prefix: a pattern of RE2 without groups.
        pattern: The line. Its groups are ``rate`` (units per second), ``step`` (seconds),
            ``step_ms``, ``steps`` (per second), ``per_step`` (units of a step), ``data`` (seconds
            of data wait), ``n`` (the number of the iteration), ``np``, ``spread``; of ITERATIONS
            ``batch`` (of all ranks) and ``tflops`` (per GPU). With ``mean_``
            before it, a number is a running mean. A number ends before a character that is no part
            of it, so that a line that is cut within one states no other number.
        unit: Of ``rate``. Without that group the rate is steps/s.
        per: Whether the rate is of a rank or of the whole job, as the source of the tool says.
        scope: What the line is on.
        from_zero: Iterations are numbered from 0.
        series: Of ITERATIONS, one of ITERATION_SERIES.
    """

    tool: str
    mark: str
    pattern: re.Pattern[str]
    unit: str = SAMPLES
    per: str = UNSTATED
    scope: str = STEP
    from_zero: bool = False
    series: str = ""


N = TypeVar("N", float, "pd.Series[float]")
"""A number of one line, or those of many, none of which is 0 where a rate follows from it."""

RateLines = tuple[RateFormat, pd.DataFrame]
"""Lines of one kind: ``order`` among all lines, ``line``, ``rank``, which is -1 where no log prefix
names one, and the numbers of the groups that stand in them."""


@dataclass(frozen=True, slots=True)
class Printed(Generic[N]):
    """One rate of a line; times in seconds, ``None`` where none stands."""

    rate: N
    unit: str
    running_mean: bool
    step: N | None
    data: N | None


def rates_in(kind: RateFormat, number: Callable[[str], N | None]) -> Iterator[Printed[N]]:
    """The rate of some iterations and the running mean, where they stand.

    Args:
        kind: Of the line.
        number: That of a group, None where it is not in the line.
    """
    for prefix in ("", "mean_"):
        rate, step, data = (number(prefix + name) for name in ("rate", "step", "data"))
        if (in_ms := number(f"{prefix}step_ms")) is not None:
            step = in_ms / 1e3
        if is_stated(steps := number("steps")) and not prefix:
            step = 1 / steps
        if rate is not None:
            yield Printed(rate, kind.unit, bool(prefix), step, data)
        elif is_stated(step):
            yield Printed(1 / step, STEPS, bool(prefix), step, data)


def is_stated(number: N | None) -> TypeGuard[N]:
    """Whether a number stands there that is not 0."""
    return number is not None and (not isinstance(number, float) or number != 0)


def is_contradicted(
    number: Callable[[str], N | None], found: list[Printed[N]]
) -> bool | np.bool_ | Bools:
    """Whether two numbers of a line give different units per step."""
    sizes = [one.rate * one.step for one in found if one.unit != STEPS and is_stated(one.step)]
    sizes += [size] if (size := number("per_step")) is not None else []
    # Of one line or of many: the first axis is that of the sizes.
    return len(sizes) > 1 and np.max(sizes, axis=0) > (1 + _ROUNDING) * np.min(sizes, axis=0)


@dataclass(frozen=True, slots=True)
class FoundRate:
    """A line with a rate: its numbers as they stand."""

    line: int
    rank: int | None
    kind: RateFormat
    stated: dict[str, str | None]

    @property
    def iteration(self) -> int | None:
        """The number of the iteration."""
        number = self.stated.get("n")
        return int(number[:18]) if number else None

    def number(self, name: str) -> float | None:
        """The number of a group; None where it is not in the line."""
        text = self.stated.get(name)
        return float(text.replace(",", "")) if text else None
