import math
from typing import Any

import pandas as pd
import pytest

from hvdprof.analyze.scaling.throughput_scaling import contradicted_speedups, throughput_scaling
from hvdprof.model.tables.log_tables import THROUGHPUT
from tests.builders.declared_rows import declared_rows


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
