import numpy as np
import pytest
import scipy.stats

from hvdprof.analyze.lines.line_statistics import chance_of_excess, difference_ends
from hvdprof.analyze.stats.uncertainty import wilson

NUM = 4_000


def test_the_chance_is_that_of_the_conditional_binomial_test():
    for count, other, exposure, beside in [(7, 2, 1.0, 1.0), (40, 3, 10.0, 2.0), (1, 0, 1.0, 3.0)]:
        share = exposure / (exposure + beside)
        expected = scipy.stats.binomtest(count, count + other, share, alternative="greater").pvalue
        assert chance_of_excess(count, other, exposure, beside) == pytest.approx(expected)


def test_without_samples_or_anything_to_hold_them_against_nothing_is_unlikely():
    assert chance_of_excess(0, 5, 1.0, 1.0) == 1.0
    assert chance_of_excess(5, 0, 1.0, 0.0) == 1.0


def test_equal_lines_are_rarely_called_longer():
    rng = np.random.default_rng(0)
    counts, others = rng.poisson(12.0, NUM), rng.poisson(24.0, NUM)
    chances = [
        chance_of_excess(int(a), int(b), 1.0, 2.0) for a, b in zip(counts, others, strict=True)
    ]
    assert (np.array(chances) <= 0.05).mean() <= 0.055


def test_intervals_of_a_difference_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    first, second = rng.binomial(80, 0.3, NUM) / 80, rng.binomial(150, 0.1, NUM) / 150
    of_first = (first, *wilson(first, np.full(NUM, 80.0)))
    of_second = (second, *wilson(second, np.full(NUM, 150.0)))
    low, high = difference_ends(of_first, of_second)
    held = ((low <= 0.2) & (high >= 0.2)).mean()
    assert 0.94 <= held <= 0.97


def test_samples_of_one_long_step_count_as_others_do():
    """With exponential gaps samples are a Poisson process, also where all time lies in one step."""
    rng = np.random.default_rng(2)
    held = []
    for _ in range(1_000):
        # 100 steps of 100 ms; the line takes 4 s, all of them in one step that lasts 4.1 s.
        ends = np.cumsum(rng.exponential(50.0, 600))
        ends = ends[ends < 14_000.0]
        at_line = float(((ends >= 6_000.0) & (ends < 10_000.0)).sum())
        low, high = wilson(np.array([at_line / len(ends)]), np.array([float(len(ends))]))
        held.append(low[0] <= 4_000 / 14_000 <= high[0])
    assert np.mean(held) >= 0.94
