import numpy as np
import pytest
from scipy import special

from hvdprof.analyze.stats.distributions import incomplete_beta


def test_is_that_of_scipy_from_one_end_to_the_other() -> None:
    sizes = (0.15, 0.5, 1, 2.5, 40, 3000)
    points = (1e-12, 0.001, 0.3, 0.5, 0.77, 0.999, 1 - 1e-9)
    cases = [(a, b, x) for a in sizes for b in sizes for x in points]

    values = [incomplete_beta(*case) for case in cases]

    expected = [special.betainc(*case) for case in cases]
    # Beyond 1e-290 logarithms of numbers this large lose digits.
    assert values == pytest.approx(expected, rel=1e-10, abs=1e-290)


def test_ends_are_exact() -> None:
    assert [incomplete_beta(2, 3, x) for x in (-1, 0, 1, 2)] == [0, 0, 1, 1]


def test_of_whole_numbers_is_a_tail_of_the_binomial_distribution() -> None:
    heads = np.arange(1, 11)

    tails = [incomplete_beta(count, 10 - count + 1, 0.5) for count in heads]

    assert tails == pytest.approx([special.bdtrc(count - 1, 10, 0.5) for count in heads])
