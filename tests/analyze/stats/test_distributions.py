import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

from hvdprof.analyze.stats.distributions import (
    binomial_tail,
    fair_coin_quantile,
    hypergeometric_tail,
    normal_quantile,
    student_below,
    student_quantile,
)


def test_quantiles_are_those_of_the_distributions() -> None:
    assert student_quantile(3, 0.975) == pytest.approx(stats.t.ppf(0.975, 3))
    assert normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975))
    for num in range(1, 60):
        assert fair_coin_quantile(0.025, num) == stats.binom.ppf(0.025, num, 0.5)


@pytest.mark.heavy
@pytest.mark.parametrize("degrees", [0.3, 1, 1.5, 2, 4.7, 30, 1e3, 1e6, 1e9, math.inf])
def test_student_is_that_of_scipy_far_from_its_middle(degrees: float) -> None:
    levels = [1e-9, 1e-4, 0.025, 0.3, 0.5, 0.6, 0.975, 0.9999]
    values = [-1e5, -40, -1.2, 0, 0.3, 2, 1e5]

    quantiles = [student_quantile(degrees, level) for level in levels]
    shares = [student_below(degrees, value) for value in values]

    finite = min(degrees, 1e12)
    assert quantiles == pytest.approx(special.stdtrit(finite, levels).tolist(), rel=2e-6)
    assert shares == pytest.approx(special.stdtr(finite, values).tolist(), rel=2e-6, abs=1e-200)


def test_student_of_no_degrees_is_not_a_number() -> None:
    assert all(math.isnan(student_quantile(degrees, 0.9)) for degrees in (0, -1, math.nan))
    assert math.isnan(student_below(0, 1))
    assert [student_quantile(3, level) for level in (0, 1)] == [-math.inf, math.inf]


def test_half_of_an_odd_number_of_throws_is_its_lower_middle() -> None:
    assert [fair_coin_quantile(0.5, num) for num in (1, 7, 93, 397)] == [0, 3, 46, 198]


def test_tail_holds_the_count_itself() -> None:
    tail = binomial_tail(np.array([0, 1, 4]), 4, 0.5)

    assert tail == pytest.approx([1, 1 - 0.5**4, 0.5**4])
    counts = np.array([[0, 1, 2999], [3000, 3001, 40]])
    assert binomial_tail(counts, 3000, 0.01) == pytest.approx(special.bdtrc(counts - 1, 3000, 0.01))


def test_tail_of_draws_without_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    # Importing it would be a tenth of the time of analysing a small run.
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    places = np.array([1, 3, 10, 40])

    tail = hypergeometric_tail(2, 5, places, 50)

    assert tail == pytest.approx(stats.hypergeom.sf(1, 50, places, 5))


def test_reading_a_timeline_imports_neither_scipy_nor_the_analysis_of_runs() -> None:
    code = "from hvdprof import api; api.load_run; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not {"scipy", "hvdprof.analyze.pipeline"} & set(done.stdout.split())
