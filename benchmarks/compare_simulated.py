"""How often `hvdprof compare` is wrong, and what it can decide, by simulation.

    python -m benchmarks.compare_simulated [--pairs 1000] [--write docs/explain/accuracy.md]

Two runs of one cell are simulated launch by launch: launches differ by a normal variable, the 60
steps of each vary by 4 % with autocorrelation 0.5. Their launches go through the code that compares
stored runs, or, where they are paired, through that of interleaved ones, with conditions of a
repeat that both sides share. The margin is 2 %.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.page_section import write_section
from hvdprof.analyze.compare.outcomes import outcomes
from hvdprof.analyze.stats.distributions import noncentral_student_above, student_quantile
from hvdprof.analyze.stats.launch_spread import Spread, less, spread
from hvdprof.analyze.stats.uncertainty import mean_of
from hvdprof.analyze.steps.cells import CellTime, cell_times
from hvdprof.model.comparison import DEFAULT_LEVEL, DEFAULT_MARGIN, Outcome
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.model.tables.scaling_tables import LAUNCHES

STEP_NS = 1e7
NUM_STEPS = 60
STEP_SPREAD = 0.04
CORRELATION = 0.5
MARGIN = math.log1p(DEFAULT_MARGIN)
SECTION = "compare"


@dataclass(frozen=True, slots=True)
class Setting:
    """Launches a side, their spread, the true change, and what both sides of a repeat share."""

    launches: int
    spread: float
    change: float
    shared: float = 0.0


# Launches a side for 80 % power against no change (two-sided, 5 %), by spread and change.
SAMPLE_SIZES: tuple[tuple[float, float, int], ...] = (
    (0.01, 0.02, 6),
    (0.01, 0.05, 3),
    (0.02, 0.02, 17),
    (0.02, 0.05, 4),
    (0.04, 0.05, 12),
    (0.04, 0.02, 64),
)
A_A: tuple[tuple[int, float], ...] = ((3, 0.01), (3, 0.04), (5, 0.02), (12, 0.04), (30, 0.02))


def main() -> None:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    given = parser.parse_args()
    text = "\n".join([*_errors(given.pairs), "", *_power(given.pairs)])
    if given.write is None:
        print(text)
    else:
        write_section(given.write, SECTION, text)


def _errors(num_pairs: int) -> Iterator[str]:
    """How often runs of a true change are called something that they are not."""
    yield "| true change | launches a side | launches differ by | REGRESSED | IMPROVED | EQUAL |"
    yield "|---|---|---|---|---|---|"
    settings = [
        *(Setting(num, differ, 0.0) for num, differ in A_A),
        *(Setting(num, differ, MARGIN) for num, differ in A_A),
        *(Setting(num, 0.01, 0.0, shared=0.04) for num in (3, 5)),
        *(Setting(num, 0.01, MARGIN, shared=0.04) for num in (3, 5)),
    ]
    for setting in settings:
        found = simulated(setting, num_pairs)
        pairing = f", paired: both share {100 * setting.shared:.0f} %" if setting.shared else ""
        shares = " | ".join(
            f"{100 * found.count(one) / num_pairs:.1f} %"
            for one in (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.EQUAL)
        )
        yield (
            f"| {'none' if setting.change == 0 else '2 %, the margin'} | {setting.launches} "
            f"| {100 * setting.spread:.0f} %{pairing} | {shares} |"
        )


def _power(num_pairs: int) -> Iterator[str]:
    """Power against a change beyond the margin, with the sample sizes of two-sided t-tests."""
    yield "| beyond the margin by | launches differ by | launches a side | expected | REGRESSED |"
    yield "|---|---|---|---|---|"
    for differ, beyond, launches in SAMPLE_SIZES:
        found = simulated(Setting(launches, differ, MARGIN + beyond), num_pairs)
        expected = expected_power(beyond, differ, launches)
        share = found.count(Outcome.REGRESSED) / num_pairs
        yield (
            f"| {100 * beyond:.0f} % | {100 * differ:.0f} % | {launches} | {100 * expected:.0f} % "
            f"| {100 * share:.0f} % |"
        )


def expected_power(beyond: float, differ: float, launches: int) -> float:
    """The power of a one-sided t-test, with the error of the steps within a launch."""
    within = STEP_SPREAD**2 / NUM_STEPS * (1 + CORRELATION) / (1 - CORRELATION)
    error = math.sqrt(2 * (differ**2 + within) / launches)
    degrees = 2.0 * (launches - 1)
    return noncentral_student_above(
        degrees, beyond / error, student_quantile(degrees, 1 - DEFAULT_LEVEL)
    )


def simulated(setting: Setting, num_pairs: int) -> list[Outcome]:
    """The outcomes of so many pairs of runs."""
    random = np.random.default_rng(11)
    changes = [_change(random, setting) for _ in range(num_pairs)]
    return [outcomes([change], MARGIN)[0] for change in changes]


def _change(random: np.random.Generator, setting: Setting) -> Spread:
    shared = setting.shared * random.normal(size=setting.launches)
    first, second = (
        _launches(random, setting, shared + change) for change in (0.0, setting.change)
    )
    if setting.shared:
        logs = [[math.log(launch["step_time_ns"]) for launch in side] for side in (first, second)]
        return spread([b - a for a, b in zip(*logs, strict=True)])
    one, other = (_time(side).log_step_time for side in (first, second))
    return less(
        *(Spread(log.value, log.error**2, log.degrees) for log in (other, one)),
    )


def _launches(
    random: np.random.Generator, setting: Setting, shifts: NDArray[np.float64]
) -> list[dict[str, float]]:
    """Rows of LAUNCHES of one side, as far as they matter."""
    centres = STEP_NS * np.exp(shifts + setting.spread * random.normal(size=setting.launches))
    noise = _autoregressive(random, setting.launches)
    means = [
        mean_of(centre * (1 + STEP_SPREAD * own))
        for centre, own in zip(centres, noise, strict=True)
    ]
    return [
        {
            "num_steps": NUM_STEPS,
            "step_time_ns": mean.value,
            "step_time_error_ns": mean.error,
            "num_effective_steps": mean.num_effective,
        }
        for mean in means
    ]


def _time(side: list[dict[str, float]]) -> CellTime:
    """The step time of the only cell of a run with these launches."""
    names = [{"pass_id": str(number), "segment": "m"} for number in range(len(side))]
    cell = {"model": "m", "size": 2, "engine": "horovod", "mode": "throughput", "status": "done"}
    launches = [
        dict.fromkeys(LAUNCHES.column_names, 0) | name | launch
        for name, launch in zip(names, side, strict=True)
    ]
    segments = [dict.fromkeys(SEGMENTS.column_names, 0) | cell | name for name in names]
    (time,) = cell_times(LAUNCHES.frame(launches), SEGMENTS.frame(segments)).values()
    return time


def _autoregressive(random: np.random.Generator, num: int) -> NDArray[np.float64]:
    """Series of mean 0 and variance 1 with the correlation of neighbours."""
    values = random.normal(size=(num, NUM_STEPS))
    for step in range(1, NUM_STEPS):
        values[:, step] *= math.sqrt(1 - CORRELATION**2)
        values[:, step] += CORRELATION * values[:, step - 1]
    return values


if __name__ == "__main__":
    main()
