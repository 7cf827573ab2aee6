import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.log_interval_coverage import coverage, covers, pairs
from hvdprof.analyze.scaling.iteration_series import iteration_series, notes_on
from hvdprof.analyze.stats.uncertainty import LogEstimate, difference
from hvdprof.api import scaling_of_files
from hvdprof.errors import UnreadableInputError
from tests.builders.iteration_logs import BATCH, correlated_steps, iteration_rows, write_log

NUM_LINES = 150


def test_the_rate_is_batch_over_mean_step_without_the_first_line() -> None:
    steps = np.tile([490.0, 510.0], 30)
    (found,) = iteration_series(iteration_rows({"a.log": steps})).values()
    assert math.exp(found.log_rate.value) == pytest.approx(BATCH / 0.5)
    assert found.num_lines == 60
    assert found.is_steady
    assert found.has_interval


def test_warm_up_is_left_out() -> None:
    rng = np.random.default_rng(3)
    steps = correlated_steps(rng, 200, 500.0, spread=0.01, correlation=0.0)
    steps[:10] *= 1.5
    (found,) = iteration_series(iteration_rows({"a.log": steps})).values()
    assert found.num_lines == 190
    assert math.exp(found.log_rate.value) == pytest.approx(BATCH / 0.5, rel=0.005)


def test_only_lines_of_the_last_batch_size_count() -> None:
    ramp = iteration_rows({"a.log": np.full(30, 100.0)}, batch=32)
    final = iteration_rows({"a.log": np.tile([490.0, 510.0], 20)})
    rows = pd.concat([ramp, final.iloc[1:]], ignore_index=True)
    (found,) = iteration_series(rows).values()
    assert found.num_lines == 40
    assert math.exp(found.log_rate.value) == pytest.approx(BATCH / 0.5)


def test_lines_without_a_batch_size_give_no_rate() -> None:
    rows = iteration_rows({"a.log": np.full(30, 100.0)})
    assert iteration_series(rows.assign(global_batch_size=pd.NA)) == {}
    assert iteration_series(rows.iloc[:2]) == {}


def test_a_short_log_has_no_interval_and_says_why() -> None:
    steps = np.tile([500.0, 510.0], 4)
    series = iteration_series(iteration_rows({"a.log": steps}))
    assert not series["a.log"].has_interval
    assert list(notes_on(series)) == [
        "a.log: 8 lines on iterations are too few, or too much alike, for an interval."
    ]


def test_a_log_that_does_not_become_steady_says_so() -> None:
    series = iteration_series(iteration_rows({"a.log": np.linspace(900.0, 500.0, 200)}))
    assert "do not become steady" in " ".join(notes_on(series))


def _as_if_independent(one: LogEstimate) -> LogEstimate:
    shrunk = one.error * math.sqrt((one.degrees + 1) / NUM_LINES)
    return LogEstimate(one.value, shrunk, NUM_LINES - 1)


@pytest.mark.heavy
@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_the_interval_of_the_efficiency_covers_the_truth(correlation: float) -> None:
    found = list(pairs(NUM_LINES, correlation, number=100, seed=20))
    shares = coverage(iter(found))
    assert shares.known == 1
    # Of 100 intervals of 95 %, 89 or more cover in 99 of 100 sets.
    assert shares.covered >= 0.89
    if correlation:
        blind = [
            covers(difference(*map(_as_if_independent, (own.log_rate, base.log_rate))).interval())
            for base, own in found
        ]
        assert np.mean(blind) < 0.8


def _logs(folder: Path, *sizes: tuple[str, int, float]) -> list[Path]:
    rng = np.random.default_rng(6)
    return [
        write_log(
            folder / f"{name}.log",
            size,
            correlated_steps(rng, NUM_LINES, mean_ms, spread=0.02, correlation=0.5),
        )
        for name, size, mean_ms in sizes
    ]


THREE = (("np8", 8, 500.0), ("np16", 16, 270.0), ("np32", 32, 150.0))


@pytest.mark.heavy
def test_logs_of_several_sizes_are_a_curve_with_intervals(tmp_path: Path) -> None:
    found = scaling_of_files(_logs(tmp_path, *THREE))
    rows = found.scaling.to_dict("records")
    assert [row["np"] for row in rows] == [8, 16, 32]
    for row, truth in zip(rows, (BATCH / 0.5, BATCH / 0.27, BATCH / 0.15), strict=True):
        assert row["samples_per_s_low"] < truth < row["samples_per_s_high"]
    assert math.isnan(rows[0]["efficiency_low"])
    assert rows[2]["efficiency_low"] < 0.5 / (4 * 0.15) < rows[2]["efficiency_high"]
    assert rows[2]["efficiency_high"] - rows[2]["efficiency_low"] < 0.05
    (verdict,) = found.verdicts
    assert verdict.sentence.startswith("Megatron iterations: 83.")
    assert "other launches can differ (no repeats)" in verdict.caveat
    assert found.notes == ()


@pytest.mark.heavy
def test_two_logs_of_one_size_are_repeats_whose_spread_counts(tmp_path: Path) -> None:
    logs = _logs(tmp_path, *THREE, ("again", 16, 300.0))
    rows = scaling_of_files(logs).scaling.to_dict("records")
    assert [row["num_repeats"] for row in rows] == [1, 2, 1]
    # The two launches differ by a tenth, of which no single log knows.
    assert rows[2]["efficiency_high"] - rows[2]["efficiency_low"] > 0.3


@pytest.mark.heavy
def test_logs_of_one_size_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match=r"found np=8\.$"):
        scaling_of_files(_logs(tmp_path, THREE[0], ("again", 8, 510.0)))
