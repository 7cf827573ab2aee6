import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.communication.communication_tables import overlap
from hvdprof.model.tables.run_tables import EVENTS, STEPS
from hvdprof.model.tables.timeline_tables import EXECUTIONS

NAMES = {"pass_id": "p", "segment": "s"}
PHASES = (("forward", 0, 40), ("backward", 40, 120), ("optimizer", 120, 150))


def steps(count=1):
    rows = [
        {**NAMES, "rank": 0, "step": number, "start_ns": 200 * number, "dur_ns": 160}
        for number in range(count)
    ]
    return filled(STEPS, rows)


def filled(declared, rows):
    blank = {"category": "", "str": "", "bool": False, "float64": float("nan"), "Int64": None}
    return declared.frame(
        [
            {column.name: blank.get(column.dtype, 0) for column in declared.columns} | row
            for row in rows
        ]
    )


def pieces(blocked, count=1):
    named = [*PHASES, ("blocked", *blocked)]
    return filled(
        EVENTS,
        [
            {
                **NAMES,
                "rank": 0,
                "step": number,
                "source": "recorder",
                "phase": "part",
                "activity": name,
                "start_ns": 200 * number + start,
                "dur_ns": end - start,
            }
            for number in range(count)
            for name, start, end in named
        ],
    )


def executions(*spans, step=0):
    return filled(
        EXECUTIONS,
        [
            {**NAMES, "step": step, "fusion_id": number, "start_ns": start, "dur_ns": end - start}
            for number, (start, end) in enumerate(spans)
        ],
    )


def test_a_collective_under_backward_is_covered_and_the_rest_is_not():
    row = overlap(steps(), pieces((120, 140)), executions((60, 135), (70, 90))).iloc[0]

    # Until 120 backward covers it; up to 135 the rank was blocked on it.
    assert row["communication_ns"] == 75
    assert row["overlapped_ns"] == 60
    assert row["exposed_ns"] == 15
    assert row["blocking_exposed_ns"] == 15


def test_what_no_phase_covers_is_exposed_without_blocking():
    row = overlap(steps(), pieces((120, 130)), executions((155, 160))).iloc[0]

    assert (row["overlapped_ns"], row["exposed_ns"], row["blocking_exposed_ns"]) == (0, 5, 0)


def test_steps_before_the_timeline_began_are_left_out():
    found = overlap(steps(3), pieces((120, 140), 3), executions((460, 470), step=2))

    assert list(found["step"]) == [2]


def test_without_recordings_there_is_nothing_to_cover():
    assert overlap(STEPS.empty(), EVENTS.empty(), executions((0, 5))).empty


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 150), st.integers(1, 40)), min_size=1, max_size=12))
def test_overlapped_and_exposed_sum_to_communication(spans):
    collectives = executions(*((start, start + length) for start, length in spans))

    row = overlap(steps(), pieces((100, 140)), collectives).iloc[0]

    assert row["overlapped_ns"] + row["exposed_ns"] == row["communication_ns"]
    assert 0 <= row["blocking_exposed_ns"] <= row["exposed_ns"] <= row["communication_ns"] <= 160
    assert row["overlapped_ns"] >= 0


@pytest.mark.heavy
def test_shifting_all_clocks_changes_nothing():
    tables = [steps(2), pieces((110, 130), 2), executions((60, 135), (70, 90))]
    shifted = [frame.assign(start_ns=frame["start_ns"] + 10**15) for frame in tables]

    pd.testing.assert_frame_equal(overlap(*tables), overlap(*shifted))
    assert np.isfinite(overlap(*tables)["exposed_ns"]).all()


@pytest.mark.parametrize("order", [[1, 0], [0, 1]])
def test_the_order_of_executions_does_not_matter(order):
    collectives = executions((60, 135), (20, 30)).iloc[order]

    assert overlap(steps(), pieces((120, 140)), collectives).iloc[0]["communication_ns"] == 85
