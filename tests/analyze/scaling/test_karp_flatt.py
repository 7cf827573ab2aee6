import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.scaling.karp_flatt import efficiency_at, karp_flatt


@given(st.floats(1e-4, 0.9), st.integers(2, 1000))
def test_a_job_by_amdahls_law_has_its_serial_fraction_at_every_size(fraction, scale):
    assert karp_flatt(efficiency_at(fraction, scale), scale) == pytest.approx(fraction)


def test_perfect_scaling_has_none_and_better_is_negative():
    assert karp_flatt(1.0, 8) == pytest.approx(0.0, abs=1e-12)
    assert karp_flatt(1.1, 8) < 0


@pytest.mark.parametrize(
    ("efficiency", "scale"), [(1.0, 1), (0.0, 8), (math.nan, 8), (0.5, math.nan)]
)
def test_where_nothing_grew_there_is_no_fraction(efficiency, scale):
    assert math.isnan(karp_flatt(efficiency, scale))
