"""The test names excesses soon, noise hardly ever, and says since when."""

import numpy as np
import pytest

from hvdprof.live.e_detector import EDetector, beyond_others
from hvdprof.live.job_state import LATENESS


@pytest.mark.parametrize("number", range(2, 10))
def test_beyond_others_is_the_difference_to_the_median_of_the_others(number):
    values = np.random.default_rng(number).normal(size=number)
    values[0] = values[-1]
    found = beyond_others(dict(enumerate(values.tolist())))
    for rank in range(number):
        assert found[rank] == pytest.approx(values[rank] - np.median(np.delete(values, rank)))


def test_one_rank_has_no_others():
    assert beyond_others({0: 1.0}) == {}
    assert beyond_others({}) == {}


def _noise(size, windows, seed=1):
    return np.random.default_rng(seed).normal(0, 0.02, (windows, size))


def _named(own):
    detector = EDetector(LATENESS)
    for at, row in enumerate(own.tolist()):
        begun, ended = detector.update(beyond_others(dict(enumerate(row))))
        yield from ((at, rank, True, detector.series[rank].num_since_begin()) for rank in begun)
        yield from ((at, rank, False, detector.series[rank].num_since_end()) for rank in ended)


@pytest.mark.parametrize("size", [2, 8])
def test_noise_is_no_event(size):
    assert list(_named(_noise(size, 20_000))) == []


def test_a_lasting_excess_below_the_threshold_is_no_event():
    own = _noise(4, 5_000)
    own[:, 1] += 0.04
    assert list(_named(own)) == []


@pytest.mark.parametrize(("excess", "within"), [(0.1, 40), (0.2, 30)])
@pytest.mark.parametrize("size", [2, 8])
def test_an_excess_is_named_and_cleared(size, excess, within):
    own = _noise(size, 500)
    own[100:300, 1] += excess
    (at, rank, is_named, since), (over, same, is_named_again, ago) = _named(own)
    assert (rank, same, is_named, is_named_again) == (1, 1, True, False)
    assert 100 < at <= 100 + within
    assert 300 < over <= 360
    assert at - since + 1 == pytest.approx(100, abs=3)
    assert over - ago + 1 == pytest.approx(300, abs=3)


def test_a_short_excess_after_a_long_even_time_ends_after_its_begin():
    own = _noise(2, 500)
    own[280:310, 1] += 0.3
    (at, _, _, since), (over, _, _, ago) = _named(own)
    assert at - since + 1 == pytest.approx(280, abs=3)
    assert over - ago + 1 == pytest.approx(310, abs=3)


def test_a_second_excess_began_after_the_end_of_the_first():
    own = _noise(2, 500)
    own[50:200, 1] += 0.2
    own[260:400, 1] += 0.2
    begins = [at - since + 1 for at, _, is_named, since in _named(own) if is_named]
    assert begins == pytest.approx([50, 260], abs=3)


def test_a_series_that_joins_late_is_named():
    detector = EDetector(LATENESS)
    for _ in range(1000):
        detector.update({0: 0.0})
    assert any(detector.update({0: 0.0, 1: 0.3})[0] == [1] for _ in range(40))
