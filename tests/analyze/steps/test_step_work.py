from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.steps.step_work import (
    StepWork,
    medians_of_others,
    step_work,
    with_all_ranks,
)
from hvdprof.model.tables.run_tables import EVENTS, SEGMENTS, STEPS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from tests.builders.declared_rows import declared_rows

NAMES = {"pass_id": "p", "segment": "s"}


def _step(step: int, rank: int, start: int, blocked: int | None, **values: int) -> dict[str, Any]:
    """A step of 100 ns: data 5, forward 20, backward 40, optimizer 10."""
    parts = {"data_ns": 5, "forward_ns": 20, "backward_ns": 40, "optimizer_ns": 10}
    times = {"start_ns": start, "dur_ns": 100, "blocked_ns": blocked, **parts}
    return {**NAMES, "step": step, "rank": rank, **times, **values}


def _blocked(step: int, rank: int, start: int, dur: int) -> dict[str, Any]:
    source = {"source": "recorder", "activity": "blocked"}
    return {**NAMES, **source, "step": step, "rank": rank, "start_ns": start, "dur_ns": dur}


def _work(
    steps: list[dict[str, Any]],
    events: Sequence[dict[str, Any]] = (),
    steady: tuple[int, ...] = (1, 2),
) -> StepWork | None:
    job_steps = declared_rows(
        JOB_STEPS, *({**NAMES, "step": step, "steady": step in steady} for step in (0, 1, 2))
    )
    found = step_work(declared_rows(STEPS, *steps), declared_rows(EVENTS, *events), job_steps)
    return found.get(("p", "s"))


@pytest.fixture
def two_steps() -> StepWork:
    """Step 1 from 1000 to 1100 and step 2 from 1110 to 1210; both ranks end a step together."""
    return _work(
        [_step(1, 0, 1000, 20), _step(1, 1, 1000, 5), _step(2, 0, 1110, 30), _step(2, 1, 1110, 5)],
        [
            _blocked(1, 0, 1070, 20),
            _blocked(1, 1, 1085, 5),
            # Rank 0 waits twice in step 2, the second time until 1200.
            _blocked(2, 0, 1130, 10),
            _blocked(2, 0, 1180, 20),
            _blocked(2, 1, 1195, 5),
        ],
    )


def test_a_step_begins_where_the_previous_one_ended(two_steps: StepWork) -> None:
    assert two_steps.begin.tolist() == [[1000, 1000], [1100, 1100]]
    assert two_steps.follows.tolist() == [False, True]
    assert two_steps.end.tolist() == [[1100, 1100], [1210, 1210]]
    assert two_steps.step_times.tolist() == [100, 110]


def test_the_time_of_a_rank_is_what_remains_without_its_waits(two_steps: StepWork) -> None:
    # Released at 1090 and at 1200: minus begin, minus all waits of the step.
    assert two_steps.own_before_sync.tolist() == [[70, 85], [70, 95]]
    # The wait counts as one, up to the release.
    assert two_steps.arrived.tolist() == [[1070, 1085], [1170, 1195]]
    assert two_steps.transfer.tolist() == [[5, 5], [5, 5]]
    assert two_steps.own_after_release.tolist() == [[10, 10], [10, 10]]


def test_own_work_is_the_sum_of_the_phases(two_steps: StepWork) -> None:
    assert two_steps.own.tolist() == [[75, 75], [75, 75]]
    assert two_steps.parts["forward"].tolist() == [[20, 20], [20, 20]]


def test_without_events_the_release_is_the_end_of_the_step() -> None:
    work = _work([_step(1, 0, 1000, 20)])

    assert work.own_after_release.tolist() == [[0]]
    assert work.own_before_sync.tolist() == [[80]]


def test_a_steady_step_begins_at_the_end_of_an_excluded_one() -> None:
    work = _work([_step(1, 0, 1000, 20), _step(2, 0, 1110, 20)], steady=(2,))

    assert work.steps.tolist() == [2]
    assert work.begin.tolist() == [[1100]]
    # The row before is not there to replay from.
    assert work.follows.tolist() == [False]


def test_a_step_without_every_rank_is_left_out_and_breaks_the_chain() -> None:
    steps = [_step(step, rank, 1000 + 110 * step, 20) for step in range(3) for rank in range(2)]
    del steps[2]

    work = _work(steps, steady=(0, 1, 2))

    assert work.steps.tolist() == [0, 2]
    assert work.follows.tolist() == [False, False]
    assert work.begin[1].tolist() == [1220, 1220]


def test_launches_without_steady_steps_or_blocked_times_are_omitted() -> None:
    assert _work([_step(1, 0, 1000, 20)], steady=()) is None
    assert _work([_step(1, 0, 1000, 20)], steady=(2,)) is None
    assert _work([_step(1, 0, 1000, None)]) is None


def test_a_launch_whose_steps_have_no_length_is_omitted() -> None:
    no_time = dict.fromkeys(
        ("dur_ns", "blocked_ns", "data_ns", "forward_ns", "backward_ns", "optimizer_ns"), 0
    )
    steps = [_step(1, rank, 1000, 0) | no_time for rank in range(2)]
    assert _work(steps) is None
    assert _work([one | {"dur_ns": 1} for one in steps]) is not None


def test_a_launch_counts_only_with_the_recorder_files_of_all_ranks(two_steps: StepWork) -> None:
    def sizes(size: int) -> pd.DataFrame:
        return declared_rows(SEGMENTS, {**NAMES, "size": size})

    works = {("p", "s"): two_steps}
    assert with_all_ranks(works, sizes(2)) == works
    assert with_all_ranks(works, sizes(4)) == {}


def test_medians_of_the_other_ranks() -> None:
    times = np.array([[1.0, 5.0, 3.0, 9.0], [2.0, 2.0, 2.0, 8.0]])

    assert medians_of_others(times).tolist() == [[5, 3, 5, 3], [2, 2, 2, 2]]
    assert medians_of_others(times[:, :3]).tolist() == [[4, 2, 3], [2, 2, 2]]
    assert medians_of_others(times[:, :2]).tolist() == [[5, 1], [2, 2]]
