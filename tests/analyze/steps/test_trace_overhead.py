import math

import pytest

from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.analyze.steps.trace_overhead import trace_overhead
from tests.builders.cell_times import cell, cell_time


def _times(*cells: CellTime) -> dict[Cell, CellTime]:
    return {time.cell: time for time in cells}


def test_it_is_the_ratio_of_the_passes_minus_1() -> None:
    times = _times(
        cell_time(10.5, mode="trace", error=0.03), cell_time(10.0, mode="throughput", error=0.04)
    )

    cost = trace_overhead(cell(), times)

    # The error of the ratio is 0.05 with 5^4 / (3^4 / 4 + 4^4 / 4) = 7.418 degrees: t = 2.338.
    assert cost.value == pytest.approx(0.05)
    assert cost.low == pytest.approx(1.05 * math.exp(-2.338 * 0.05) - 1, abs=1e-4)
    assert cost.high == pytest.approx(1.05 * math.exp(2.338 * 0.05) - 1, abs=1e-4)


def test_it_is_the_same_asked_from_either_mode() -> None:
    times = _times(cell_time(9.0, mode="trace"), cell_time(10.0, mode="throughput"))

    assert trace_overhead(cell(mode="trace"), times) == trace_overhead(cell(), times)
    assert trace_overhead(cell(), times).value == pytest.approx(-0.1)


@pytest.mark.parametrize("mode", ["trace", "throughput"])
def test_one_mode_alone_has_no_overhead(mode: str) -> None:
    cost = trace_overhead(cell(), _times(cell_time(mode=mode), cell_time(mode=mode, np=4)))

    assert all(math.isnan(value) for value in (cost.value, cost.low, cost.high))
