import math
from typing import Any

import pandas as pd
import pytest

from hvdprof.analyze.steps.cells import Cell, CellTime, cell_times, throughput_cells
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.model.tables.scaling_tables import LAUNCHES
from tests.builders.cell_times import MS, cell
from tests.builders.declared_rows import declared_rows


def _launch(step_ms: float, error: float = 0.0, **values: Any) -> dict[str, Any]:
    """A launch of 50 steps; ``error`` is relative to the step time."""
    launch = {
        "step_time_ns": step_ms * MS,
        "step_time_error_ns": error * step_ms * MS,
        "num_steps": 50,
        "num_effective_steps": 31.0,
    }
    segment = {"model": "m", "size": 2, "engine": "horovod", "mode": "throughput", "pinned": True}
    return segment | {"compression": "none", "reduction": "average"} | launch | values


def _times(*given: dict[str, Any]) -> dict[Cell, CellTime]:
    rows = [row | {"pass_id": f"p{number}", "segment": "s"} for number, row in enumerate(given)]
    return cell_times(_frame(LAUNCHES, rows), _frame(SEGMENTS, rows))


def _frame(table: Any, rows: list[dict[str, Any]]) -> pd.DataFrame:
    names = {column.name for column in table.columns}
    return declared_rows(
        table, *({name: value for name, value in row.items() if name in names} for row in rows)
    )


def _cell(**names: Any) -> Cell:
    return cell(**({"model": "m", "batch_size": 0} | names))


def test_the_launch_is_the_unit_and_the_logarithm_the_scale() -> None:
    time = _times(_launch(10), _launch(40))[_cell()]

    # log 10 and log 40 are log 2 away from log 20; (log 2)^2 + (log 2)^2 over 1 degree, 2 launches.
    assert time.log_step_time.value == pytest.approx(math.log(20 * MS))
    assert time.log_step_time.error == pytest.approx(math.log(2))
    # Two degrees would cover the truth in 85 % of the cases.
    assert time.log_step_time.degrees == 1
    assert time.log_step_time.pool == ""
    assert time.launches == (("p0", "s"), ("p1", "s"))
    assert time.num_steps == 100


def test_a_cell_without_repeats_takes_the_spread_of_its_number_of_ranks() -> None:
    times = _times(
        _launch(10, model="a"),
        _launch(10 * math.exp(0.2), model="a"),
        _launch(7, model="b"),
        _launch(7, model="c", size=4),
    )

    # 0.1^2 + 0.1^2 over 1 degree.
    single = times[_cell(model="b")].log_step_time
    assert single.error == pytest.approx(math.sqrt(0.02))
    assert (single.degrees, single.pool) == (1, "np=2")
    # Neither its number of ranks nor its model has repeats: the steps within it remain.
    assert times[_cell(model="c", np=4)].log_step_time.pool == ""


def test_the_largest_of_the_three_spreads_counts() -> None:
    times = _times(
        _launch(10),
        _launch(10 * math.exp(0.02)),
        _launch(10, size=4),
        _launch(10 * math.exp(0.2), size=4),
    )

    # Of the model: 2 * 0.01^2 + 2 * 0.1^2 over 2 degrees, above 2 * 0.01^2 of 2 ranks alone.
    idle = times[_cell(np=2)].log_step_time
    assert idle.error == pytest.approx(math.sqrt(0.0202 / 2 / 2))
    assert (idle.degrees, idle.pool) == (2, "model=m")
    assert times[_cell(np=4)].log_step_time.error == pytest.approx(0.1)


def test_the_error_is_never_below_that_of_the_steps() -> None:
    time = _times(_launch(10, error=0.02), _launch(10, error=0.02))[_cell()]

    assert time.log_step_time.error == pytest.approx(0.02 / math.sqrt(2))


def test_without_any_repeat_the_steps_are_the_only_error() -> None:
    alone = _times(_launch(10, error=0.01))[_cell()].log_step_time
    assert (alone.error, alone.degrees, alone.pool) == (pytest.approx(0.01), 30, "")

    correlated = _times(_launch(10, error=0.01, num_effective_steps=1.5))[_cell()].log_step_time
    assert math.isnan(correlated.error)


def test_ranks_that_share_cores_do_not_widen_the_others_of_the_model() -> None:
    times = _times(
        _launch(10),
        _launch(10 * math.exp(0.02)),
        _launch(10, size=4, oversubscribed=True),
        _launch(10 * math.exp(0.2), size=4, oversubscribed=True),
    )

    assert times[_cell(np=2)].log_step_time.error == pytest.approx(0.01)
    assert not times[_cell(np=2)].oversubscribed
    assert times[_cell(np=4)].oversubscribed


def test_a_cell_is_pinned_if_all_its_launches_are() -> None:
    assert _times(_launch(10), _launch(11))[_cell()].pinned
    assert not _times(_launch(10), _launch(11, pinned=False))[_cell()].pinned


def test_a_launch_without_steps_counts_for_no_cell() -> None:
    times = _times(_launch(0), _launch(10, size=4))

    assert list(times) == [_cell(np=4)]


def test_modes_and_toggles_are_cells_of_their_own() -> None:
    times = _times(_launch(10), _launch(12, mode="trace"), _launch(9, compression="fp16"))

    assert list(times) == [_cell(), _cell(mode="trace"), _cell(compression="fp16")]
    assert [time.cell for time in throughput_cells(times)] == [_cell(), _cell(compression="fp16")]
    assert _cell().is_base
    assert not _cell(compression="fp16").is_base
    assert _cell().in_mode("trace") == _cell(mode="trace")
    assert _cell().key == {
        "model": "m",
        "np": 2,
        "engine": "horovod",
        "compression": "none",
        "reduction": "average",
    }
