import math

import pytest

from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.analyze.steps.step_time_ratio import (
    PairedRatios,
    baseline_name,
    baselines,
    trace_overhead,
)
from tests.builders.cell_times import MS, cell, cell_time


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


TORCH = cell_time(np=1, engine="torch")
HOROVOD_1 = cell_time(np=1)
DDP_2 = cell_time(np=2, engine="ddp")
HOROVOD_2 = cell_time(np=2)
HOROVOD_4 = cell_time(np=4)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([HOROVOD_4, HOROVOD_1, TORCH], TORCH),
        ([HOROVOD_4, HOROVOD_1, HOROVOD_2], HOROVOD_1),
        ([HOROVOD_4, HOROVOD_2], HOROVOD_2),
        ([HOROVOD_4, DDP_2], DDP_2),
        ([DDP_2, HOROVOD_2], HOROVOD_2),
    ],
)
def test_the_smallest_number_of_ranks_with_plain_torch_first(
    cells: list[CellTime], expected: CellTime
) -> None:
    assert baselines(cells) == {"resnet18": expected}


def test_a_toggle_is_never_the_baseline() -> None:
    fp16 = cell_time(np=1, compression="fp16")
    adasum = cell_time(np=1, reduction="adasum")

    assert baselines([fp16, adasum, HOROVOD_2]) == {"resnet18": HOROVOD_2}
    assert baselines([fp16, adasum]) == {}


def test_an_oversubscribed_cell_is_the_last_choice() -> None:
    crowded = cell_time(np=1, oversubscribed=True)

    assert baselines([crowded, HOROVOD_4]) == {"resnet18": HOROVOD_4}
    assert baselines([crowded]) == {"resnet18": crowded}


def test_each_model_has_its_own() -> None:
    vgg = cell_time(np=2, model="vgg16")

    assert baselines([HOROVOD_4, vgg, TORCH]) == {"resnet18": TORCH, "vgg16": vgg}


def test_its_name_in_tables() -> None:
    assert baseline_name(TORCH) == "torch np=1"
    assert baseline_name(HOROVOD_2) == "horovod np=2"


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
