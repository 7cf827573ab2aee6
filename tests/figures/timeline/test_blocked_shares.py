import numpy as np
import pytest

from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, blocked_shares, own_times

FORWARD, BACKWARD, OPTIMIZER, BLOCKED, OTHER = range(5)


def shares(*rows):
    """Of rows of lane, category, start and end."""
    lane, category, start, end = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return blocked_shares(lane, category, start, end, blocked=BLOCKED, num_categories=5).tolist()


@pytest.mark.parametrize("phase", [BACKWARD, OPTIMIZER])
def test_a_wait_belongs_to_the_phase_around_it(phase):
    found = shares((0, FORWARD, 0, 10), (0, phase, 10, 30), (0, BLOCKED, 12, 20))
    assert found == [float(number == phase) for number in range(5)]


def test_waits_in_two_phases_and_of_two_ranks_are_shared():
    found = shares(
        (0, FORWARD, 0, 10), (0, BLOCKED, 4, 6), (0, BACKWARD, 10, 20), (0, BLOCKED, 12, 16),
        (1, FORWARD, 5, 15), (1, BLOCKED, 6, 8), (1, BACKWARD, 15, 30), (1, BLOCKED, 20, 24),
    )  # fmt: skip
    assert found == pytest.approx([1 / 3, 2 / 3, 0, 0, 0])


def test_a_wait_between_phases_is_inside_none():
    assert shares((0, FORWARD, 0, 10), (0, BLOCKED, 12, 20)) == [0.0] * 5
    assert shares((0, FORWARD, 0, 10)) == shares((0, BLOCKED, 0, 9)) == [0.0] * 5


def test_the_phase_of_another_rank_does_not_count():
    assert shares((0, FORWARD, 0, 100), (1, BLOCKED, 12, 20)) == [0.0] * 5


def test_a_bin_that_is_mostly_blocked_has_its_colour_wherever_the_wait_lies():
    busy = np.zeros((1, len(CATEGORIES), 1))
    busy[0, CATEGORIES.index("backward")] = 1.0
    busy[0, CATEGORIES.index("blocked")] = 0.7
    in_backward = (np.array(CATEGORIES) == "backward").astype(float)

    own = own_times(busy, in_backward)[0, :, 0]

    assert CATEGORIES[own.argmax()] == "blocked"
    assert own[CATEGORIES.index("backward")] == pytest.approx(0.3)
