from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.steps.measured_launches import job_steps
from hvdprof.api import load_run
from hvdprof.model.tables.run_tables import STEPS
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run


def steps_of(ends: dict[int, dict[int, int]], starts: dict[int, dict[int, int]]) -> pd.DataFrame:
    """STEPS after warm-up from the start and end of each rank and step."""
    rows = [
        dict.fromkeys(STEPS.column_names, 0)
        | {"num_steps": 1}
        | {"pass_id": "p", "segment": "s", "rank": rank, "step": step, "warmup": False}
        | {"start_ns": starts[rank][step], "dur_ns": end - starts[rank][step]}
        for rank, of_rank in ends.items()
        for step, end in of_rank.items()
    ]
    return STEPS.frame(rows)


def ends_of(table: pd.DataFrame) -> list[tuple[int, int, int]]:
    return [tuple(row) for row in table[["step", "end_ns", "dur_ns"]].to_numpy().tolist()]


def test_a_step_of_the_job_ends_with_its_last_rank() -> None:
    table = job_steps(
        steps_of(
            starts={0: {2: 100, 3: 200, 4: 300}, 1: {2: 110, 3: 230, 4: 310}},
            ends={0: {2: 190, 3: 290, 4: 400}, 1: {2: 220, 3: 280, 4: 430}},
        )
    )
    assert ends_of(table) == [(2, 220, 110), (3, 290, 70), (4, 430, 140)]


def test_a_step_that_a_rank_lacks_and_the_one_after_do_not_count() -> None:
    table = job_steps(
        steps_of(
            starts={0: {0: 0, 1: 10, 2: 20, 3: 30}, 1: {0: 0, 2: 20, 3: 30}},
            ends={0: {0: 10, 1: 20, 2: 30, 3: 40}, 1: {0: 10, 2: 30, 3: 41}},
        )
    )
    assert ends_of(table) == [(0, 10, 10), (3, 41, 11)]


def test_the_first_step_after_warm_up_within_a_segment_starts_at_its_own_start() -> None:
    steps = steps_of(
        starts={0: {0: 0, 1: 10, 2: 100, 3: 112, 4: 120}, 1: {0: 0, 1: 11, 2: 100, 3: 113, 4: 121}},
        ends={0: {0: 10, 1: 20, 2: 111, 3: 120, 4: 130}, 1: {0: 10, 1: 21, 2: 112, 3: 121, 4: 131}},
    )
    table = job_steps(steps.assign(warmup=steps["step"].isin([0, 2])))
    assert ends_of(table) == [(1, 21, 10), (3, 121, 8), (4, 131, 10)]


def test_without_steps_there_are_none() -> None:
    assert len(job_steps(STEPS.empty())) == 0


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(0, 10**9)),
        min_size=1,
        max_size=30,
    )
)
def test_the_times_of_a_launch_sum_to_its_wall_time(
    lengths: list[tuple[int, int, int]],
) -> None:
    starts: dict[int, dict[int, int]] = {0: {}, 1: {}}
    ends: dict[int, dict[int, int]] = {0: {}, 1: {}}
    now = {0: 5, 1: 9}
    for step, (first, second, gap) in enumerate(lengths):
        for rank, length in ((0, first), (1, second)):
            starts[rank][step] = now[rank]
            ends[rank][step] = now[rank] = now[rank] + length
            now[rank] += gap
    table = job_steps(steps_of(ends, starts))
    last = max(ends[0][len(lengths) - 1], ends[1][len(lengths) - 1])
    assert table["dur_ns"].sum() == last - 9


def test_warm_up_batches_are_left_out(tmp_path: Path) -> None:
    spec = SegmentSpec(num_warmup_batches=4, num_steps=6, parts_ms={"forward": np.arange(1, 11)})
    run = load_run(write_run(tmp_path, [PassSpec(size=2, segments=[spec])]))
    table = job_steps(run.steps)
    assert list(table["step"]) == [4, 5, 6, 7, 8, 9]
    assert list(table["dur_ns"] / 1e6) == [5, 6, 7, 8, 9, 10]
