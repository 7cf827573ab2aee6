"""Theil and Sen's slope, held against scipy's."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import theilslopes

from hvdprof.analyze.stats.theil_sen import theil_sen


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("with_ties", [False, True])
def test_slope_and_interval_are_those_of_scipy(seed: int, with_ties: bool) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 40))
    x = np.sort(rng.uniform(1, 1e6, count))
    y = 3.0 * x + rng.normal(0, 1e5, count)
    if with_ties:
        x, y = np.round(x, -5), np.round(y, -6)
    for confidence in (0.9, 0.95):
        found, known = theil_sen(x, y, confidence), theilslopes(y, x, confidence)
        assert (found.value, found.low, found.high) == pytest.approx(
            (known.slope, known.low_slope, known.high_slope), rel=1e-12
        )


def test_a_line_has_its_slope_and_outliers_do_not_move_it() -> None:
    x = np.arange(1.0, 21.0)
    y = 2.0 * x + 5.0
    assert theil_sen(x, y, 0.95).value == pytest.approx(2.0)
    y[3] += 1e6
    found = theil_sen(x, y, 0.95)
    assert found.value == pytest.approx(2.0)
    assert found.low <= found.value <= found.high


def test_the_fit_of_links_does_not_import_scipy_stats() -> None:
    script = (
        "import sys\n"
        "import numpy as np\n"
        "from hvdprof.analyze.communication.network import _fit\n"
        "_fit(np.array([1e3, 1e4, 1e5, 1e6]), np.array([2e4, 3e4, 9e4, 8e5]))\n"
        "print('scipy.stats' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
