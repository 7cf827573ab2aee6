from dataclasses import replace

import pytest

from hvdprof.launch.turns.turn_schedule import SegmentTurns
from tests.builders.training_job import segment

TIMED = replace(segment("s"), num_steps=None, max_seconds=3.0)


def _turns_of(turns: SegmentTurns, step_s: float) -> list[int]:
    given = []
    while num_steps := turns.next_steps(step_s):
        given.append(num_steps)
        turns.add(num_steps, num_steps * step_s)
    return given


@pytest.mark.parametrize(
    ("step_s", "expected"),
    [
        (0.01, [100, 100, 100]),
        (0.3, [3, 3, 3, 3]),
        (2.0, [3, 3, 3, 3]),
    ],
)
def test_turns_of_a_second_until_the_time_is_reached(step_s: float, expected: list[int]) -> None:
    assert _turns_of(SegmentTurns(TIMED, turn_s=1.0), step_s) == expected


def test_a_short_segment_has_two_turns_all_the_same() -> None:
    short = SegmentTurns(replace(TIMED, max_seconds=0.5), turn_s=1.0)
    assert _turns_of(short, 0.01) == [100, 100]


def test_a_turn_of_steps_of_unknown_length_is_short() -> None:
    assert SegmentTurns(TIMED, turn_s=1.0).next_steps(float("nan")) == 3


def test_the_number_of_steps_is_exact() -> None:
    counted = SegmentTurns(replace(TIMED, num_steps=250, max_seconds=None), turn_s=1.0)
    assert _turns_of(counted, 0.01) == [63, 63, 63, 61]


def test_the_first_bound_that_is_reached_ends_the_segment() -> None:
    assert sum(_turns_of(SegmentTurns(replace(TIMED, num_steps=120), turn_s=1.0), 0.01)) == 120
    assert sum(_turns_of(SegmentTurns(replace(TIMED, num_steps=900), turn_s=1.0), 0.01)) == 300
