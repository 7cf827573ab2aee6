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
from hvdprof.analyze.compare.outcomes import family_outcomes, outcomes
from hvdprof.analyze.stats.distributions import noncentral_student_above, student_quantile
from hvdprof.analyze.stats.uncertainty import Spread, less, mean_of, spread
from hvdprof.analyze.steps.cells import CellTime, cell_times
from hvdprof.model.results.comparison import DEFAULT_LEVEL, DEFAULT_MARGIN, ComparisonOutcome
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.model.tables.scaling_tables import LAUNCHES
from hvdprof.rundir.stopping import comparison_looks, look_level

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
MOST_LAUNCHES: tuple[int, ...] = (3, 5, 6, 7, 10, 20, 50)
SERIES_PER_PAIR = 20
"""Series without steps are cheap to simulate: so many show tenths of a percent."""

FAMILIES: tuple[tuple[int, int], ...] = ((1, 1), (1, 3), (2, 2), (3, 3), (6, 3))
"""Numbers of conditions and of cells."""

A_A: tuple[tuple[int, float], ...] = ((3, 0.01), (3, 0.04), (5, 0.02), (12, 0.04), (30, 0.02))


def main() -> None:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    given = parser.parse_args()
    tables = (_errors, _power, _looks, _conditions)
    text = "\n\n".join("\n".join(table(given.pairs)) for table in tables)
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
            for one in (
                ComparisonOutcome.REGRESSED,
                ComparisonOutcome.IMPROVED,
                ComparisonOutcome.EQUAL,
            )
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
        share = found.count(ComparisonOutcome.REGRESSED) / num_pairs
        yield (
            f"| {100 * beyond:.0f} % | {100 * differ:.0f} % | {launches} | {100 * expected:.0f} % "
            f"| {100 * share:.0f} % |"
        )


def _looks(num_pairs: int) -> Iterator[str]:
    """How often a measurement with looks is called worse, with a true change of the margin."""
    yield "| most launches of each | looks after | level of a look | REGRESSED at any look |"
    yield "|---|---|---|---|"
    for most in MOST_LAUNCHES:
        share = error_with_looks(most, SERIES_PER_PAIR * num_pairs)
        after = ", ".join(map(str, comparison_looks(most)))
        yield f"| {most} | {after} | {100 * look_level(most):.2f} % | {100 * share:.1f} % |"


def error_with_looks(most: int, num_pairs: int) -> float:
    """The share of paired measurements of a change of the margin that any look calls worse.

    Args:
        most: The most repeats.
        num_pairs: Simulated measurements.
    """
    random = np.random.default_rng(12)
    differences = MARGIN + random.normal(size=(num_pairs, most))
    return float(np.mean([_is_worse(one, most) for one in differences]))


def _is_worse(differences: NDArray[np.float64], most: int) -> bool:
    return any(
        outcomes([spread(differences[:look].tolist())], MARGIN, look_level(most))[0]
        is ComparisonOutcome.REGRESSED
        for look in comparison_looks(most)
    )


def _conditions(num_pairs: int) -> Iterator[str]:
    """How often any condition fails, with a true change of the margin in all of them."""
    yield "| conditions | cells | one family | each condition for itself |"
    yield "|---|---|---|---|"
    for num_conditions, num_cells in FAMILIES:
        together, apart = errors_of_gate(num_conditions, num_cells, SERIES_PER_PAIR * num_pairs)
        yield (f"| {num_conditions} | {num_cells} | {100 * together:.1f} % | {100 * apart:.1f} % |")


def errors_of_gate(num_conditions: int, num_cells: int, num_pairs: int) -> tuple[float, float]:
    """The share of gates that fail, all tests as one family, and each condition for itself.

    Args:
        num_conditions: Conditions, each on a metric of its own.
        num_cells: Cells of the runs.
        num_pairs: Simulated pairs of runs.
    """
    random = np.random.default_rng(13)
    together = apart = 0
    for _ in range(num_pairs):
        by_condition = [
            [(_of_normal(random), MARGIN) for _ in range(num_cells)] for _ in range(num_conditions)
        ]
        whole = family_outcomes([test for one in by_condition for test in one])
        together += ComparisonOutcome.REGRESSED in whole
        apart += any(ComparisonOutcome.REGRESSED in family_outcomes(one) for one in by_condition)
    return together / num_pairs, apart / num_pairs


def _of_normal(random: np.random.Generator) -> Spread:
    """A change of the margin, from five differences of pairs."""
    return spread((MARGIN + 0.02 * random.normal(size=5)).tolist())


def expected_power(beyond: float, differ: float, launches: int) -> float:
    """The power of a one-sided t-test, with the error of the steps within a launch."""
    within = STEP_SPREAD**2 / NUM_STEPS * (1 + CORRELATION) / (1 - CORRELATION)
    error = math.sqrt(2 * (differ**2 + within) / launches)
    degrees = 2.0 * (launches - 1)
    return noncentral_student_above(
        degrees, beyond / error, student_quantile(degrees, 1 - DEFAULT_LEVEL)
    )


def simulated(setting: Setting, num_pairs: int) -> list[ComparisonOutcome]:
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
