import numpy as np
import pytest

from hvdprof.analyze.ranks.events import Series
from hvdprof.analyze.ranks.named_cause import STRAGGLER, Delay
from hvdprof.analyze.ranks.shapes import described

NUM = 80
STEP_NS = 100.0
SERIES = Series(STEP_NS, np.arange(1, NUM + 1))


def described_of(own: np.ndarray, *, is_event: bool = False) -> Delay:
    """A delay of the second of two ranks."""
    excess = np.stack([np.zeros(NUM), own], axis=1)
    excess += np.random.default_rng(0).normal(0, 1.0, excess.shape)
    affected = np.zeros((NUM, 2), dtype=bool)
    affected[:, 1] = own > 20.0 if is_event else True
    return described(Delay(STRAGGLER, (1,), affected, is_event), excess, SERIES)


def late_in(first: int, last: int, size: float = 40.0) -> np.ndarray:
    own = np.zeros(NUM)
    own[first:last] = size
    return own


def test_a_delay_in_all_steps_persists():
    found = described_of(late_in(0, NUM))
    assert (found.pattern, found.affected[:, 1].all()) == ("persistent", True)


def test_a_delay_to_the_end_begins_at_a_step():
    found = described_of(late_in(30, NUM))
    assert found.pattern == "from-step"
    assert abs(int(found.affected[:, 1].argmax()) - 30) <= 1


@pytest.mark.parametrize("is_event", [False, True])
def test_a_delay_between_two_steps_lasts_for_a_while(is_event: bool):
    found = described_of(late_in(30, 55), is_event=is_event)
    rows = np.flatnonzero(found.affected[:, 1])
    assert (found.pattern, rows[0], rows[-1]) == ("for-a-while", 30, 54)


def test_a_delay_that_grows_has_its_last_size():
    found = described_of(np.linspace(0, 60.0, NUM))
    assert found.pattern == "growing"
    assert found.last_ns == pytest.approx(60.0, rel=0.05)
    assert found.affected[10:, 1].all()


def test_a_step_up_is_no_growth():
    assert described_of(late_in(40, NUM)).pattern == "from-step"


def test_every_third_step_is_periodic():
    own = np.zeros(NUM)
    own[2::3] = 30.0
    found = described_of(own)
    assert (found.pattern, found.period) == ("periodic", 3.0)
    assert np.flatnonzero(found.affected[:, 1]).tolist() == list(range(2, NUM, 3))


def test_bursts_are_irregular_in_their_steps():
    rng = np.random.default_rng(3)
    late = rng.random(NUM) < 0.3
    found = described_of(np.where(late, 80.0, 0.0), is_event=True)
    assert found.pattern == "irregular"
    assert found.affected[:, 1].tolist() == late.tolist()
