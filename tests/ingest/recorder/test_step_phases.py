import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.recorder.step_phases import UNSEEN, intervals, part_lengths
from hvdprof.model.causes import RECORDED_PARTS


def parts(dur_ns: int, phases: list[list[object]], blocked: list[list[int]]) -> dict[str, int]:
    line = {"dur_ns": dur_ns, "phases": phases, "blocked": blocked}
    return dict(zip(RECORDED_PARTS, part_lengths(line, intervals(line)), strict=True))


def test_blocked_time_is_taken_out_of_the_phase_it_lies_in() -> None:
    found = parts(
        100,
        [
            ["data", 0, 10],
            ["forward", 10, 20],
            ["backward", 30, 26],
            ["before_update", 56, 4],
            ["optimizer", 60, 30],
        ],
        [[55, 10], [70, 5]],
    )
    assert found == {
        "data": 10,
        "forward": 20,
        "backward": 25,
        "blocked": 15,
        "before_update": 0,
        "optimizer": 20,
        "outside": 10,
    }


def test_unobserved_blocked_time_lies_in_the_rest_of_the_step() -> None:
    line = {"dur_ns": 100, "phases": [["data", 0, 10]], "blocked": None}
    found = dict(zip(RECORDED_PARTS, part_lengths(line, intervals(line)), strict=True))
    assert (found["data"], found["blocked"], found["outside"]) == (10, UNSEEN, 90)
    assert intervals(line) == [("data", 0, 10)]


@pytest.mark.parametrize("blocked", [0, False, [[1]], [[UNSEEN, 1]]])
def test_damaged_blocked_time_is_no_blocked_time(blocked: object) -> None:
    line = {"dur_ns": 100, "phases": [], "blocked": blocked}
    with pytest.raises((TypeError, ValueError)):
        part_lengths(line, intervals(line))


def test_phases_of_the_scripts_own_are_other_time() -> None:
    assert parts(10, [["validation", 0, 4], ["forward", 4, 3]], [])["outside"] == 7


def test_a_phase_that_comes_twice_counts_twice() -> None:
    assert parts(10, [["forward", 0, 3], ["forward", 5, 4]], [])["forward"] == 7


@given(
    st.integers(0, 10**12),
    st.lists(
        st.tuples(
            st.sampled_from(["data", "forward", "backward", "optimizer", "own"]),
            st.integers(0, 10**10),
            st.integers(0, 10**10),
        ).map(list)
    ),
    st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**10)).map(list)),
)
def test_parts_sum_to_the_step(
    dur_ns: int, phases: list[list[object]], blocked: list[list[int]]
) -> None:
    assert sum(parts(dur_ns, phases, blocked).values()) == dur_ns
