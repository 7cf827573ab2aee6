import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from hvdprof.analyze.stats.distributions import (
    binomial_tail,
    fair_coin_quantile,
    hypergeometric_tail,
    normal_quantile,
    student_quantile,
)


def test_quantiles_are_those_of_the_distributions() -> None:
    assert student_quantile(3, 0.975) == pytest.approx(stats.t.ppf(0.975, 3))
    assert normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975))
    for num in range(1, 60):
        assert fair_coin_quantile(0.025, num) == stats.binom.ppf(0.025, num, 0.5)


def test_tail_holds_the_count_itself() -> None:
    tail = binomial_tail(np.array([0, 1, 4]), 4, 0.5)

    assert tail == pytest.approx([1, 1 - 0.5**4, 0.5**4])


def test_tail_of_draws_without_replacement() -> None:
    places = np.array([1, 3, 10, 40])

    tail = hypergeometric_tail(2, 5, places, 50)

    assert tail == pytest.approx(stats.hypergeom.sf(1, 50, places, 5))


def test_reading_a_timeline_imports_neither_scipy_nor_the_analysis_of_runs() -> None:
    code = "from hvdprof import api; api.load_run; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not {"scipy", "hvdprof.analyze.pipeline"} & set(done.stdout.split())
