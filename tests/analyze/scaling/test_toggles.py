from dataclasses import replace

import pytest

from tests.builders.analysis import analysis_of
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts


def passes(step_ms, *, size=2, repeats=3, spread=0.01, **toggle):
    specs = []
    for repeat in range(1, repeats + 1):
        drift = 1 + spread * (repeat - 2)
        specs.append(
            PassSpec(
                size=size,
                repeat=repeat,
                segments=[
                    SegmentSpec(parts_ms=typical_parts(10.0 * drift, 2.0)),
                    SegmentSpec(parts_ms=typical_parts(step_ms * drift, 2.0), **toggle),
                ],
            )
        )
    return specs


def toggle_row(tmp_path, specs):
    rows = analysis_of(tmp_path / "run", specs).table("toggles").to_dict("records")
    assert len(rows) == 1
    return rows[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step_ms", "verdict"), [(8.0, "pays"), (12.5, "costs"), (10.0, "no effect")]
)
def test_pairs_of_repeats_decide(tmp_path, step_ms, verdict):
    # Launches drift by 5 % from one repeat to the next, which falls on both of a pair.
    row = toggle_row(tmp_path, passes(step_ms, spread=0.05, compression="fp16"))

    assert row["verdict"] == verdict
    assert row["toggle"] == "fp16"
    assert row["num_pairs"] == 3
    assert row["speedup"] == pytest.approx(10.0 / step_ms, rel=0.01)


@pytest.mark.heavy
def test_one_repeat_is_not_comparable(tmp_path):
    row = toggle_row(tmp_path, passes(8.0, repeats=1, reduction="adasum"))

    assert (row["toggle"], row["verdict"]) == ("adasum", "not comparable")
    assert "fewer than two repeats" in row["reason"]


@pytest.mark.heavy
def test_on_one_rank_there_is_nothing_to_compare(tmp_path):
    row = toggle_row(tmp_path, passes(8.0, size=1, compression="fp16"))

    assert row["verdict"] == "not comparable"


@pytest.mark.slow
def test_repeats_that_differ_beyond_all_bounds_are_not_comparable(tmp_path):
    # Six comparisons share the level: with two repeats each the quantile is 76.
    plain = [SegmentSpec(model=f"m{number}", num_steps=1) for number in range(6)]
    specs = [
        PassSpec(
            size=2,
            repeat=repeat,
            segments=[
                *plain,
                *(
                    replace(one, compression="fp16", parts_ms=typical_parts(length_ms))
                    for one in plain
                ),
            ],
        )
        for repeat, length_ms in ((1, 0.001), (2, 1e6))
    ]
    rows = analysis_of(tmp_path / "run", specs).table("toggles")
    assert set(rows["verdict"]) == {"not comparable"}
    assert rows["speedup_high"].max() < float("inf")
