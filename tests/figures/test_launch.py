import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.figures import launch as module
from hvdprof.figures.launch import (
    bin_largest,
    bin_means,
    bin_starts,
    largest_of_each,
    launch_label,
    launches_in,
    opening_launch,
    rows_of_cell,
    rows_of_launch,
    with_excluded,
)
from hvdprof.model.tables.run_tables import SEGMENTS, STEPS
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES
from tests.builders.declared_rows import declared_rows
from tests.builders.traced_run import segment_row

NAN = float("nan")


def launch_row(pass_id, segment="resnet18-none-average"):
    return {
        "pass_id": pass_id,
        "segment": segment,
        "num_steps": 10,
        "num_cut_steps": 0,
        "step_time_ns": 1e6,
        "step_time_error_ns": 1e4,
        "num_effective_steps": 8.0,
        "num_turns": 0,
        "drift": 0.0,
        "drift_error": NAN,
        "steady": True,
    }


SEGMENTS_OF_SWEEP = SEGMENTS.frame(
    [
        segment_row(pass_id="01", size=1, mode="throughput"),
        segment_row(pass_id="02", size=4, mode="throughput", compression="fp16"),
        segment_row(pass_id="03", size=4, mode="trace"),
        segment_row(pass_id="04", size=4, mode="throughput"),
        segment_row(pass_id="05", size=4, mode="throughput", repeat=2),
    ]
)
LAUNCHES_OF_SWEEP = LAUNCHES.frame([launch_row(f"0{number}") for number in range(1, 6)])


def test_the_page_opens_with_the_cell_that_was_asked_for():
    found = opening_launch(SEGMENTS_OF_SWEEP, LAUNCHES_OF_SWEEP, "resnet18", 1)
    assert found == ("01", "resnet18-none-average")


def test_else_with_the_most_ranks_without_toggle_and_without_timeline():
    found = opening_launch(SEGMENTS_OF_SWEEP, LAUNCHES_OF_SWEEP)
    assert found == ("04", "resnet18-none-average")


@pytest.mark.parametrize(
    ("model", "num_ranks", "setting", "expected"),
    [
        ("resnet18", 4, "fp16", "02"),
        ("resnet18", 4, "Adasum", "04"),
        ("resnet18", 1, "fp16", "01"),
        ("resnet18", 99, "fp16", "02"),
        ("vgg16", 1, "", "01"),
    ],
)
def test_the_nearest_launch_has_the_model_then_the_ranks_then_the_toggles(
    model, num_ranks, setting, expected
):
    found = opening_launch(SEGMENTS_OF_SWEEP, LAUNCHES_OF_SWEEP, model, num_ranks, setting)
    assert found is not None
    assert found[0] == expected


def test_a_standalone_file_has_no_segments():
    standalone = LAUNCHES.frame([launch_row("timeline.json", "")])
    launch = opening_launch(SEGMENTS.empty(), standalone)
    assert launch == ("timeline.json", "")
    assert launch_label(SEGMENTS.empty(), launch) == "timeline.json"
    assert len(rows_of_cell(SEGMENTS.empty(), standalone, launch)) == 1


def test_without_rows_there_is_no_launch():
    assert opening_launch(SEGMENTS_OF_SWEEP, LAUNCHES.empty()) is None
    assert rows_of_launch(LAUNCHES_OF_SWEEP, None).empty


@pytest.mark.parametrize("launch", [("nowhere", "resnet18-none-average"), ("01", "../x")])
def test_a_launch_that_is_not_there_has_no_rows(launch):
    assert rows_of_launch(LAUNCHES_OF_SWEEP, launch).empty


def test_a_cell_is_all_its_launches_in_the_same_mode():
    rows = rows_of_cell(SEGMENTS_OF_SWEEP, LAUNCHES_OF_SWEEP, ("05", "resnet18-none-average"))
    assert [key[0] for key in launches_in(rows)] == ["04", "05"]


def test_a_label_names_model_ranks_and_toggles():
    label = launch_label(SEGMENTS_OF_SWEEP, ("02", "resnet18-none-average"))
    assert label == "resnet18 np=4, fp16 (02)"


def test_a_launch_that_failed_is_shown_where_the_cell_has_no_other():
    failed = SEGMENTS_OF_SWEEP.assign(
        status=["done", "done", "failed", "failed", "done"],
    )
    assert opening_launch(failed, LAUNCHES_OF_SWEEP)[0] == "05"
    assert opening_launch(failed, LAUNCHES_OF_SWEEP.iloc[3:4])[0] == "04"


def test_excluded_steps_are_as_long_as_on_their_longest_rank_and_say_why():
    of_job = declared_rows(
        JOB_STEPS, *({"step": step, "dur_ns": 10, "steady": step > 1} for step in (1, 2, 5))
    )
    rows = [
        {"rank": rank, "step": step, "dur_ns": 20 + rank, "warmup": step != 4}
        for step in (0, 1, 3, 4)
        for rank in (0, 1)
    ]
    found = with_excluded(of_job, declared_rows(STEPS, *rows))
    assert found.to_dict("list") == {
        "step": [0, 1, 2, 3, 4, 5],
        "dur_ns": [21, 10, 10, 21, 21, 10],
        "num_steps": [1] * 6,
        "steady": [False, False, True, False, False, True],
        "why": [
            *("warm-up", "warm-up", "", "warm-up of a turn, or evaluation"),
            *("not recorded on all ranks", ""),
        ],
    }


@given(st.integers(0, 5000), st.integers(1, 600))
def test_bins_cover_all_values_in_order_and_are_of_even_length(num_values, most):
    starts = bin_starts(num_values, most)
    assert len(starts) == min(num_values, most)
    lengths = np.diff(starts, append=num_values)
    assert lengths.sum() == num_values
    assert num_values == 0 or lengths.max() - lengths.min() <= 1


def test_means_and_largest_of_rows():
    values = np.arange(12.0).reshape(6, 2)
    starts = bin_starts(6, 3)
    assert bin_means(values, starts).tolist() == [[1, 2], [5, 6], [9, 10]]
    assert bin_largest(values, starts).tolist() == [[2, 3], [6, 7], [10, 11]]


@pytest.mark.parametrize("binned", [bin_means, bin_largest])
def test_nothing_stays_nothing(binned):
    assert len(binned(np.empty((0, 3)), bin_starts(0, 5))) == 0


def test_the_largest_of_each_group_largest_first():
    table = pd.DataFrame({"step": [1, 1, 2, 3], "ns": [5, 9, 7, 1], "tensor": list("abcd")})
    found = largest_of_each(table, "ns", ["step"], 2)
    assert found["tensor"].tolist() == ["b", "c"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50)), max_size=60), st.integers(1, 8))
def test_few_candidates_find_what_sorting_everything_finds(rows, most):
    table = pd.DataFrame(rows, columns=["step", "ns"]).astype("int64")
    expected = table.groupby("step")["ns"].max().sort_values(ascending=False).head(most)
    before = module._CANDIDATES_OF_EACH
    module._CANDIDATES_OF_EACH = 1
    try:
        found = largest_of_each(table, "ns", ["step"], most)
    finally:
        module._CANDIDATES_OF_EACH = before
    assert found["ns"].tolist() == expected.tolist()
    assert found["step"].is_unique
