import math

import pytest

from hvdprof.analyze.steps.cells import CellTime
from hvdprof.analyze.steps.step_time_ratio import PairedRatios
from tests.builders.cell_times import MS, cell_time


def _cell(*step_ms: float, turns: bool = True, **names: object) -> CellTime:
    """A cell with one launch per repeat."""
    logs = {repeat: math.log(ms * MS) for repeat, ms in enumerate(step_ms, start=1)}
    mean_ms = math.exp(sum(logs.values()) / len(logs)) / MS
    time = cell_time(mean_ms, error=0.2, **names)
    return replaced(time, logs) if turns else time


def replaced(time: CellTime, by_repeat: dict[int, float]) -> CellTime:
    return CellTime(
        cell=time.cell,
        launches=time.launches,
        log_step_time=time.log_step_time,
        num_steps=time.num_steps,
        oversubscribed=time.oversubscribed,
        pinned=time.pinned,
        by_repeat=by_repeat,
    )


ALONE = _cell(10, 20, 30, np=1, engine="torch")


def test_what_slows_all_launches_of_a_repeat_cancels_out() -> None:
    pair = _cell(12.5, 25, 37.5, np=2)
    ratio = PairedRatios([ALONE, pair], {"resnet18": ALONE}).ratio(ALONE, pair).interval()
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((0.8, 0.8, 0.8))


def test_the_spread_of_the_differences_decides() -> None:
    pair = _cell(12.5, 25 * 1.02, 37.5 / 1.02, np=2)
    found = PairedRatios([ALONE, pair], {"resnet18": ALONE}).ratio(ALONE, pair)
    assert found.value == pytest.approx(math.log(0.8))
    assert found.error == pytest.approx(math.log(1.02) / math.sqrt(3))
    assert found.degrees == 2


def test_the_spread_of_other_cells_of_the_model_or_size_counts() -> None:
    even = _cell(12.5, 25, 37.5, np=2)
    noisy = _cell(11, 22 * 1.1, 33 / 1.1, np=1)
    found = PairedRatios([ALONE, even, noisy], {"resnet18": ALONE}).ratio(ALONE, even)
    assert found.pool == "model=resnet18"
    assert found.degrees == 4
    assert found.error == pytest.approx(math.log(1.1) * math.sqrt(2 / 4) / math.sqrt(3))


@pytest.mark.parametrize(
    "pair",
    [
        _cell(12.5, 25, 37.5, np=2, turns=False),
        _cell(12.5, 25, np=2),
        _cell(12.5, np=2),
    ],
)
def test_launches_without_turns_or_other_repeats_are_independent(pair: CellTime) -> None:
    found = PairedRatios([ALONE, pair], {"resnet18": ALONE}).ratio(ALONE, pair)
    assert found.error == pytest.approx(0.2 * math.sqrt(2))


def test_two_repeats_alone_have_one_degree_and_two_with_another_pair() -> None:
    one, pair = _cell(10, 20, np=1, engine="torch"), _cell(12.5, 25 * 1.02, np=2)
    found = PairedRatios([one, pair], {"resnet18": one}).ratio(one, pair)
    assert (found.degrees, found.pool) == (1, "")
    even = _cell(11, 22, np=1)
    found = PairedRatios([one, pair, even], {"resnet18": one}).ratio(one, pair)
    assert (found.degrees, found.pool) == (2, "")


def test_one_repeat_has_no_spread() -> None:
    one, pair = _cell(10, np=1), _cell(12.5, np=2)
    found = PairedRatios([one, pair], {"resnet18": one}).ratio(one, pair)
    assert found.error == pytest.approx(0.2 * math.sqrt(2))
