"""What one kind of line with a rate says, and the numbers in such a line.

Tested in ``tests/ingest/rates/test_rate_formats.py``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Printed:
    """One rate of a line; times in seconds, ``None`` where none stands."""

    rate: float
    unit: str
    running_mean: bool
    step: float | None
    data: float | None


def rates_in(kind: RateFormat, stated: dict[str, str | None]) -> Iterator[Printed]:
    """The rate of some iterations and the running mean, where they stand."""
    for prefix in ("", "mean_"):
        rate, step, data = (number_in(stated, prefix + name) for name in ("rate", "step", "data"))
        if (in_ms := number_in(stated, f"{prefix}step_ms")) is not None:
            step = in_ms / 1e3
        if (steps := number_in(stated, "steps")) and not prefix:
            step = 1 / steps
        if rate is not None:
            yield Printed(rate, kind.unit, bool(prefix), step, data)
        elif step:
            yield Printed(1 / step, STEPS, bool(prefix), step, data)


def is_contradicted(stated: dict[str, str | None], found: list[Printed]) -> bool:
    """Whether two numbers of a line give different units per step."""
    sizes = [one.rate * one.step for one in found if one.unit != STEPS and one.step]
    sizes += [size] if (size := number_in(stated, "per_step")) is not None else []
    return len(sizes) > 1 and max(sizes) > (1 + _ROUNDING) * min(sizes)


def number_in(stated: dict[str, str | None], name: str) -> float | None:
    """The number of a group; None where it is not in the line."""
    text = stated.get(name)
    return float(text.replace(",", "")) if text else None
