import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.log_interval_coverage import coverage, covers, pairs
from hvdprof.analyze.scaling.throughput_scaling import (
    contradicted_speedups,
    iteration_series,
    notes_on,
    throughput_scaling,
)
from hvdprof.analyze.stats.uncertainty import LogEstimate, difference
from hvdprof.api import scaling_of_files
from hvdprof.errors import UnreadableInputError
from hvdprof.model.tables.log_tables import THROUGHPUT
from tests.builders.declared_rows import declared_rows
from tests.builders.iteration_logs import BATCH, correlated_steps, iteration_rows, write_log

NUM_LINES = 150


def table(stated):
    rates = {1: 100.0, 2: 190.0, 4: 350.0}
    return declared_rows(
        THROUGHPUT,
        *(
            {"np": np, "samples_per_s": rate, "stated_speedup": speedup}
            for (np, rate), speedup in zip(rates.items(), stated, strict=True)
        ),
    )


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ((1.0, 1.9, 3.5), ""),
        ((1.0, 1.9, 3.45), ""),
        ((1.0, 1.9, 4.1), "The throughputs contradict 1 stated speed-up (np=4) by more than 2 %."),
        ((float("nan"),) * 3, ""),
        # Stated against another baseline.
        ((0.5, 0.95, 1.75), ""),
    ],
)
def test_stated_speed_ups_are_held_against_the_throughputs(stated, said):
    assert contradicted_speedups([table(stated)]) == said


def _scaling(*given: tuple[str, int, float], repeats: bool = False) -> pd.DataFrame:
    rows: list[dict[str, Any]] = [
        {"series": series, "np": size, "samples_per_s": rate, "file": f"{number}.log"}
        for number, (series, size, rate) in enumerate(given)
    ]
    return throughput_scaling(declared_rows(THROUGHPUT, *rows), repeats=repeats)


def test_against_the_smallest_number_of_ranks() -> None:
    found = _scaling(("a", 8, 480.0), ("a", 2, 200.0))

    assert found["np"].tolist() == [2, 8]
    assert found["baseline_np"].tolist() == [2, 2]
    assert found["speedup"].tolist() == [1, 2.4]
    # 4 times the ranks.
    assert found["efficiency"].tolist() == [1, pytest.approx(0.6)]
    # (1 / 2.4 - 1 / 4) / (1 - 1 / 4)
    assert found["karp_flatt"].iloc[1] == pytest.approx(2 / 9)
    assert found["file"].tolist() == ["1.log", "0.log"]
    assert found["efficiency_low"].isna().all()


def test_each_series_has_its_own_baseline() -> None:
    found = _scaling(("a", 1, 100.0), ("b", 2, 50.0), ("a", 4, 300.0), ("b", 4, 100.0))

    assert found["series"].tolist() == ["a", "a", "b", "b"]
    assert found["efficiency"].tolist() == [1, 0.75, 1, 1]


@pytest.mark.parametrize(
    "given",
    [
        [("a", 4, 100.0)],
        [("a", 1, 0.0), ("a", 4, 300.0)],
    ],
    ids=["one size", "no samples"],
)
def test_no_efficiency_without_a_baseline(given: list[tuple[str, int, float]]) -> None:
    found = _scaling(*given)

    assert len(found) == len(given)
    for column in ("baseline_np", "speedup", "efficiency", "karp_flatt"):
        assert found[column].isna().all()


def test_rows_of_the_smallest_size_have_their_mean_as_the_baseline() -> None:
    found = _scaling(("a", 1, 100.0), ("a", 1, 121.0), ("a", 4, 220.0))

    assert found["efficiency"].tolist() == pytest.approx([1 / 1.1, 1.1, 0.5])
    pooled = _scaling(("a", 1, 100.0), ("a", 1, 121.0), ("a", 4, 220.0), repeats=True)
    assert pooled["efficiency"].tolist() == pytest.approx([1, 0.5])


def test_repeats_count_by_their_geometric_mean_with_a_pooled_interval() -> None:
    up = math.exp(0.02)
    found = _scaling(
        ("a", 1, 100.0 / up),
        ("a", 1, 100.0 * up),
        ("a", 4, 300.0 / up),
        ("a", 4, 300.0 * up),
        ("a", 4, 0.0),
        repeats=True,
    )

    assert found["samples_per_s"].tolist() == pytest.approx([100, 300])
    assert found["num_repeats"].tolist() == [2, 2]
    assert found["efficiency"].tolist() == pytest.approx([1, 0.75])
    # Variance 4 * 0.02^2 over 2 degrees, halved per size, of two sizes; t = 4.303.
    reach = 4.303 * math.sqrt(0.0008 / 2 * 2)
    assert found["efficiency_low"].iloc[1] == pytest.approx(0.75 * math.exp(-reach), rel=1e-4)
    assert found["efficiency_high"].iloc[1] == pytest.approx(0.75 * math.exp(reach), rel=1e-4)
    assert math.isnan(found["efficiency_low"].iloc[0])


def test_single_measurements_given_as_repeats_have_no_interval() -> None:
    found = _scaling(("a", 1, 100.0), ("a", 2, 180.0), repeats=True)

    assert found["efficiency"].tolist() == pytest.approx([1, 0.9])
    assert found["efficiency_low"].isna().all()
    assert found["num_repeats"].tolist() == [1, 1]


@pytest.mark.parametrize("num_values", [None, 10])
def test_a_printed_error_gives_the_interval(num_values: int | None) -> None:
    rows = [
        {"series": "a", "np": size, "samples_per_s": rate, "file": f"{size}.log"}
        | {"error": rate / 100, "num_values": num_values}
        for size, rate in ((1, 100.0), (2, 190.0))
    ]
    found = throughput_scaling(declared_rows(THROUGHPUT, *rows)).to_dict("records")
    reach = 2.262 if num_values else 1.96
    assert found[0]["samples_per_s_high"] == pytest.approx(100 * math.exp(reach / 100), rel=1e-4)
    assert found[1]["efficiency_low"] < 0.95 - 0.95 * 1.96 / 100
    assert 0.95 < found[1]["efficiency_high"] < 1


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
