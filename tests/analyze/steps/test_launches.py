import math
from collections.abc import Sequence

import pandas as pd
import pytest

from hvdprof.analyze.steps.measured_launches import launches, mark_steady
from hvdprof.model.cell_key import LAUNCH, rows_by_launch
from hvdprof.model.schema import as_text
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from tests.builders.declared_rows import declared_rows

MS = 1_000_000


def _job_steps(times_ms: dict[str, Sequence[float]]) -> pd.DataFrame:
    return declared_rows(
        JOB_STEPS,
        *(
            {"pass_id": "p", "segment": segment, "step": step, "dur_ns": int(ms * MS)}
            for segment, times in times_ms.items()
            for step, ms in enumerate(times)
        ),
    )


def _segments(**status: str) -> pd.DataFrame:
    return declared_rows(
        SEGMENTS,
        *({"pass_id": "p", "segment": name, "status": end} for name, end in status.items()),
    )


def test_warm_up_is_excluded_in_each_launch_alone() -> None:
    marked = mark_steady(_job_steps({"b": [10] * 20, "a": [100] * 5 + [10] * 35}))

    assert marked["steady"].tolist() == [True] * 20 + [False] * 5 + [True] * 35


def test_mean_and_error_are_those_of_the_steady_steps() -> None:
    marked = mark_steady(_job_steps({"a": [100] * 5 + [9, 11] * 15}))

    row = launches(marked, _segments(a="done")).iloc[0]

    assert (row["num_steps"], row["num_cut_steps"]) == (30, 5)
    assert row["step_time_ns"] == pytest.approx(10 * MS)
    # Every step is 1 ms away from the mean.
    assert 2 < row["num_effective_steps"] <= 30
    assert row["step_time_error_ns"] == pytest.approx(
        MS / math.sqrt(row["num_effective_steps"] - 1)
    )
    assert row["steady"]


def test_drift_is_the_trend_in_steps_of_the_mean() -> None:
    table = _job_steps({"a": [10 + 0.1 * step for step in range(11)]}).assign(steady=True)

    row = launches(table, _segments(a="done")).iloc[0]

    # 0.1 ms per step over 11 steps of 10.5 ms.
    assert row["drift"] == pytest.approx(1.1 / 10.5)
    assert row["drift_error"] == pytest.approx(0, abs=1e-6)


def test_half_of_the_steps_as_warm_up_is_not_steady() -> None:
    marked = mark_steady(_job_steps({"a": [30] * 10 + [10] * 10}))

    row = launches(marked, _segments(a="done")).iloc[0]

    assert (row["num_steps"], row["num_cut_steps"]) == (10, 10)
    assert not row["steady"]


def test_finished_segments_with_steps_in_the_order_of_the_segments() -> None:
    table = mark_steady(_job_steps({"a": [10] * 20, "b": [20] * 20, "c": [30] * 20}))

    found = launches(table, _segments(c="done", b="failed", empty="done", a="partial"))

    assert found["segment"].tolist() == ["c", "a"]
    assert found["step_time_ns"].tolist() == [30 * MS, 10 * MS]


@pytest.mark.parametrize("dtype", ["category", "str"])
def test_rows_of_launches_come_in_the_order_of_their_first_row(dtype: str) -> None:
    names = {"pass_id": ["q", "p", "q", "p", None], "segment": ["b", "b", "b", "a", "b"]}
    table = pd.DataFrame(names).astype(dtype)

    found = [(key, rows.tolist()) for key, rows in rows_by_launch(table)]

    assert found == [(("q", "b"), [0, 2]), (("p", "b"), [1]), (("p", "a"), [3])]
    assert list(rows_by_launch(table.iloc[:0])) == []


@pytest.mark.parametrize("dtype", ["category", "str"])
def test_names_as_text_are_those_of_pandas(dtype: str) -> None:
    names = {"pass_id": ["q", None, "p"], "segment": ["b", "b", "b"], "step": [1, 2, 3]}
    table = pd.DataFrame(names, index=[4, 2, 9]).astype({"pass_id": dtype, "segment": dtype})
    before = table.copy(deep=True)

    for rows in (table, table.iloc[:0]):
        expected = rows.astype(dict.fromkeys(LAUNCH, str))
        pd.testing.assert_frame_equal(as_text(rows, LAUNCH), expected)
    pd.testing.assert_frame_equal(table, before)
