import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from hvdprof.analyze.stats.uncertainty import (
    CONFIDENCE,
    LogEstimate,
    Spread,
    autocorrelation_time,
    difference,
    less,
    mean_of,
    median_of,
    spread,
    times,
    wilson,
)
from hvdprof.analyze.steps.cells import cell_times
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.model.tables.scaling_tables import LAUNCHES
from tests.builders.analysis import autoregressive


def test_mean_of_launches_with_the_interval_of_student_t() -> None:
    found = spread([1.0, 2.0, 3.0])

    # Variance 1 of 3 launches; t = 4.303 for 2 degrees.
    assert found == Spread(2.0, pytest.approx(1 / 3), 2.0)
    assert found.interval().low == pytest.approx(2 - 4.303 / math.sqrt(3), abs=1e-3)
    assert found.interval().high == pytest.approx(2 + 4.303 / math.sqrt(3), abs=1e-3)


def test_one_launch_has_a_mean_and_no_interval() -> None:
    interval = spread([5.0]).interval()

    assert interval.value == 5
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)


def test_no_launch_has_no_mean() -> None:
    assert math.isnan(spread([]).value)


def test_difference_adds_variances_and_degrees_by_welch() -> None:
    # (4 + 1)^2 / (4^2 / 2 + 1^2 / 3)
    assert less(Spread(7.0, 4.0, 2.0), Spread(2.0, 1.0, 3.0)) == Spread(5.0, 5.0, pytest.approx(3))


def test_difference_to_a_single_launch_has_no_interval() -> None:
    found = less(spread([1.0, 3.0]), spread([1.5]))

    assert found.value == 0.5
    assert math.isnan(found.interval().low)


def test_a_factor_is_squared_in_the_variance() -> None:
    assert times(-3.0, Spread(2.0, 0.5, 4.0)) == Spread(-6.0, 4.5, 4.0)


MODELS = ("a", "b", "c")


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_the_autocorrelation_time_of_a_known_series(correlation: float) -> None:
    rng = np.random.default_rng(1)
    times = [autocorrelation_time(autoregressive(rng, 4000, correlation)) for _ in range(20)]
    assert np.mean(times) == pytest.approx((1 + correlation) / (1 - correlation), rel=0.1)


def test_negative_autocorrelation_claims_no_gain() -> None:
    noise = np.random.default_rng(2).normal(size=(50, 201))
    times = [autocorrelation_time(np.diff(one)) for one in noise]
    assert min(times) == 1.0
    assert np.mean(times) < 1.1


@pytest.mark.parametrize("num", [7, 30, 31, 400])
def test_values_that_alternate_count_as_independent(num: int) -> None:
    alternating = np.tile([80.0, 120.0], num)[:num]
    assert mean_of(alternating).num_effective == num
    noise = np.random.default_rng(3).normal(scale=2.0, size=num)
    assert mean_of(alternating + noise).num_effective == num


def test_equal_values_have_no_error() -> None:
    mean = mean_of(np.full(40, 3.0))
    assert (mean.value, mean.error, mean.num_effective) == (3.0, 0.0, 40.0)


@pytest.mark.parametrize("num", [0, 1])
def test_one_value_has_no_error(num: int) -> None:
    assert math.isnan(mean_of(np.ones(num)).error)


def test_the_interval_of_a_ratio_by_hand() -> None:
    # ln(2) with errors 0.03 and 0.04: 0.05, degrees 0.05^4 / (0.03^4 / 4 + 0.04^4 / 9) = 12.84
    ratio = difference(LogEstimate(math.log(2), 0.03, 4), LogEstimate(0.0, 0.04, 9))
    assert ratio.error == pytest.approx(0.05)
    assert ratio.degrees == pytest.approx(12.84, abs=0.01)
    interval = ratio.interval()
    assert interval.value == pytest.approx(2)
    assert interval.high / 2 == pytest.approx(2 / interval.low)
    assert interval.high == pytest.approx(2 * math.exp(2.163 * 0.05), rel=1e-3)


def test_two_estimates_of_one_pool_keep_its_degrees_of_freedom() -> None:
    one = LogEstimate(0.0, 0.1, 4, pool="np=1")
    assert difference(one, one).degrees == 4


def test_an_unknown_error_gives_no_interval() -> None:
    ratio = difference(LogEstimate(0.0, float("nan"), 0), LogEstimate(0.0, 0.1, 5)).interval()
    assert ratio.value == 1
    assert math.isnan(ratio.low)
    assert math.isnan(ratio.high)


def simulated(
    rng: np.random.Generator,
    num_launches: int,
    num_steps: int,
    spread: Callable[[str, int], float] = lambda model, size: 0.02,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Launches of three models at np 1 and 2: true step time 10 ms, launches that differ by the
    spread of their model and size, steps that vary by 8 % with autocorrelation 0.5."""
    segments, launches = [], []
    for size in (1, 2):
        for model in MODELS:
            for repeat in range(num_launches):
                launch = 1e7 * math.exp(spread(model, size) * rng.normal())
                mean = mean_of(launch * (1 + 0.08 * autoregressive(rng, num_steps, 0.5)))
                names = {"pass_id": f"{size}-{repeat}", "segment": model}
                segments.append(
                    dict.fromkeys(SEGMENTS.column_names, 0)
                    | names
                    | {"model": model, "size": size, "mode": "throughput", "status": "done"}
                )
                launches.append(
                    dict.fromkeys(LAUNCHES.column_names, 0)
                    | names
                    | {
                        "num_steps": num_steps,
                        "step_time_ns": mean.value,
                        "step_time_error_ns": mean.error,
                        "num_effective_steps": mean.num_effective,
                    }
                )
    return LAUNCHES.frame(launches), SEGMENTS.frame(segments)


@pytest.mark.slow
@pytest.mark.parametrize(("num_launches", "widest"), [(2, 0.11), (3, 0.07), (5, 0.045)])
def test_intervals_of_a_ratio_cover_the_truth(num_launches: int, widest: float) -> None:
    rng = np.random.default_rng(7)
    covered, half_widths = [], []
    for _ in range(150):
        times = cell_times(*simulated(rng, num_launches, 60))
        by_name = {(cell.model, cell.np): time for cell, time in times.items()}
        for model in MODELS:
            to, of = by_name[model, 1].log_step_time, by_name[model, 2].log_step_time
            interval = difference(to, of).interval()
            covered.append(interval.low <= 1 <= interval.high)
            half_widths.append((interval.high - interval.low) / 2)
    assert np.mean(covered) >= 0.92
    assert np.median(half_widths) < widest


@pytest.mark.slow
@pytest.mark.parametrize("num_launches", [2, 3, 5])
@pytest.mark.parametrize(
    "spread",
    [
        lambda model, size: 0.1 if model == "a" else 0.01,
        lambda model, size: 0.1 if size == 2 else 0.01,
    ],
    ids=["one noisy model", "one noisy size"],
)
def test_the_noisy_cells_are_covered_too(
    num_launches: int, spread: Callable[[str, int], float]
) -> None:
    rng = np.random.default_rng(11)
    covered: dict[str, list[bool]] = {model: [] for model in MODELS}
    for _ in range(150):
        times = cell_times(*simulated(rng, num_launches, 40, spread))
        by_name = {(cell.model, cell.np): time for cell, time in times.items()}
        for model in MODELS:
            to, of = by_name[model, 1].log_step_time, by_name[model, 2].log_step_time
            interval = difference(to, of).interval()
            covered[model].append(interval.low <= 1 <= interval.high)
    assert min(np.mean(hits) for hits in covered.values()) >= 0.9


@pytest.mark.heavy
def test_one_launch_covers_the_truth_of_that_launch() -> None:
    rng = np.random.default_rng(8)
    covered = []
    for _ in range(500):
        mean = mean_of(1e7 * (1 + 0.08 * autoregressive(rng, 100, 0.5)))
        estimate = LogEstimate(
            math.log(mean.value), mean.error / mean.value, mean.num_effective - 1
        )
        interval = estimate.interval()
        covered.append(interval.low <= 1e7 <= interval.high)
    assert np.mean(covered) >= 0.92


def test_a_cell_whose_launches_differ_more_than_others_keeps_its_own_spread() -> None:
    launches, segments = simulated(np.random.default_rng(9), 3, 60)
    rough = (launches["segment"] == "a") & launches["pass_id"].astype(str).str.startswith("2")
    launches.loc[rough, "step_time_ns"] = [0.5e7, 1e7, 2e7]
    times = {(cell.model, cell.np): one for cell, one in cell_times(launches, segments).items()}
    assert times["a", 2].log_step_time.error == pytest.approx(math.log(2) / math.sqrt(3))
    assert times["b", 2].log_step_time.error < times["a", 2].log_step_time.error
    assert times["b", 1].log_step_time.error < 0.05


@pytest.mark.heavy
def test_the_interval_of_a_median_leaves_out_what_the_binomial_distribution_says() -> None:
    for num in range(1, 400):
        found = median_of(np.arange(1.0, num + 1), correlated=False)
        below = scipy.stats.binom.ppf((1 - CONFIDENCE) / 2, num, 0.5)
        ends = (np.nan, np.nan) if below < 1 else (below, num + 1 - below)
        assert (found.low, found.high) == pytest.approx(ends, nan_ok=True)


def test_wilson_by_hand():
    low, high = wilson(np.array([0.5, 0.0]), np.array([20.0, 10.0]))
    assert low == pytest.approx([0.299, 0.0], abs=0.001)
    assert high == pytest.approx([0.701, 0.278], abs=0.001)
