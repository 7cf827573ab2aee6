"""Ranks that are late beyond the differences from launch to launch."""

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.causes.cell_split import UNKNOWN, transfer_split, transfer_splits
from hvdprof.analyze.ranks.chances import exceeds_scatter
from hvdprof.analyze.stats.uncertainty import LogEstimate
from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.model.causes import JITTER, STRAGGLER
from hvdprof.model.tables.timeline_tables import EXECUTIONS
from tests.builders.analysis import analysis_of, sweep
from tests.builders.declared_rows import declared_rows
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts
from tests.builders.step_works import simulated

HEALTHY = {
    "three of four": [0.138, 0.155, 0.074, 0.035],
    "five of six": [0.210, -0.059, 0.217, 0.134, 0.101, 0.111],
    "now one, now the other": [-0.116, -0.034, 0.140, 0.013],
}
"""Lateness of rank 1 of mnist on 2 cores, launch by launch, as shares of the step: measured."""

TRACED = Cell("m", 2, "horovod", "none", "average", 8, "trace")


def of_two(late: list[float]) -> np.ndarray:
    return np.array([[-share, share] for share in late])


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_launches_name_no_rank(name):
    late = of_two(HEALTHY[name])

    assert not exceeds_scatter(late, [0]) and not exceeds_scatter(late, [1])


@pytest.mark.parametrize("late", [[0.06, 0.058, 0.062], [0.10, 0.11], [0.2, 0.5], [0.0, 0.45]])
def test_a_rank_late_alike_in_every_launch_or_by_much_is_named(late):
    # Two launches must agree within 2 %, unless the rank loses a fifth of the step.
    is_clear = late != [0.10, 0.11]

    assert exceeds_scatter(of_two(late), [1]) == is_clear
    assert not exceeds_scatter(of_two(late), [0])


def test_more_ranks_show_the_scatter_with_fewer_launches():
    rng = np.random.default_rng(4)
    late = rng.normal(0, 0.01, size=(2, 16))
    late[:, 3] += 0.08

    assert exceeds_scatter(late, [3])


@pytest.mark.heavy
@pytest.mark.parametrize(("num_launches", "num_ranks"), [(2, 2), (4, 2), (3, 8), (6, 4)])
def test_few_healthy_cells_name_a_rank(num_launches, num_ranks):
    rng = np.random.default_rng(1)
    own = rng.normal(0, 0.05, size=(2_000, num_launches, num_ranks))
    late = own - np.median(own, axis=2, keepdims=True) if num_ranks > 2 else own - own[:, :, ::-1]

    named = [any(exceeds_scatter(one, [rank]) for rank in range(num_ranks)) for one in late]

    assert np.mean(named) <= 0.02


def launches_with(extra_ms: list[tuple[float, float]]) -> list[PassSpec]:
    """Two ranks of which each takes longer in backward, launch by launch."""
    passes = sweep({0: 8.0})
    for repeat, extra in enumerate(extra_ms, start=1):
        parts = {name: np.full((2, 1), length) for name, length in typical_parts(10.0, 2.0).items()}
        late = np.array(extra)[:, None]
        parts["backward"] = parts["backward"] + late
        parts["blocked"] = parts["blocked"] + late.max() - late
        passes.append(PassSpec(size=2, repeat=repeat, segments=[SegmentSpec(parts_ms=parts)]))
    return passes


def terms(tmp_path, extra_ms):
    rows = analysis_of(tmp_path / "run", launches_with(extra_ms)).table("waterfall")
    return rows[rows["np"] == 2].set_index("term")


@pytest.mark.heavy
def test_a_rank_that_is_late_in_some_launches_is_jitter(tmp_path):
    rows = terms(tmp_path, [(0.0, 1.6), (0.0, 1.5), (0.0, 0.8), (0.4, 0.0)])

    assert STRAGGLER not in rows.index
    assert rows.loc[JITTER, "share"] > 0.02


@pytest.mark.heavy
def test_a_rank_that_is_late_alike_in_all_launches_is_a_straggler(tmp_path):
    rows = terms(tmp_path, [(0.0, 1.1), (0.0, 1.0), (0.0, 1.05), (0.0, 0.95)])

    assert rows.loc[STRAGGLER, "ranks"] == "1" and rows.loc[STRAGGLER, "phase"] == "backward"


def split(work, start, length, copying=0.0):
    whole = [times.astype(np.int64) for times in (start, length, np.asarray(copying * length))]
    return transfer_split(work, *whole)


def executions_of(work, share, begin=0.0):
    """One execution per step: from a part of the tail on, as long as a share of it."""
    arrival, tail = work.arrived.max(axis=1), work.transfer[:, 0]
    return arrival + begin * tail, share * tail


@pytest.mark.parametrize(("begin", "share"), [(0.0, 1.0), (0.4, 0.6), (0.2, 0.3)])
def test_the_share_is_what_executions_cover_after_the_last_arrival(begin, share):
    work = simulated(50, 4, tail_ms=5.0)
    start, length = executions_of(work, share, begin)

    assert split(work, start, length).executing == pytest.approx(share, abs=1e-4)


@pytest.mark.parametrize(("begin", "exposed"), [(0.0, 0.6), (-0.6, 0.0), (-0.3, 0.3)])
def test_copies_for_fusion_are_a_part_of_what_executes(begin, exposed):
    work = simulated(50, 4, tail_ms=5.0)
    start, length = executions_of(work, 0.6, begin)

    found = split(work, start, length, copying=0.25)

    assert found.executing == pytest.approx(exposed, abs=1e-4)
    assert found.copying == pytest.approx(0.25 * exposed, abs=1e-4)


def test_executions_under_backward_are_not_counted():
    work = simulated(50, 2)
    end = work.arrived.max(axis=1)

    assert split(work, end - 3_000_000, np.full(50, 3e6), 0.5).executing == 0


def test_overlapping_executions_count_once():
    work = simulated(50, 2)
    twice = [np.tile(times, 2) for times in executions_of(work, 0.5)]

    assert split(work, *twice).executing == pytest.approx(0.5, abs=1e-4)


def test_without_time_after_the_arrival_the_share_is_unknown():
    work = simulated(5, 2, tail_ms=0.0)
    assert split(work, np.zeros(1), np.ones(1)) is UNKNOWN


def test_the_launches_in_trace_mode_speak_for_the_cell_in_throughput_mode():
    work = simulated(50, 2)
    start, length = executions_of(work, 0.5)
    times = {"start_ns": start, "dur_ns": length, "copy_ns": 0.2 * length}
    rows = pd.DataFrame(times).astype(np.int64)
    names = {"pass_id": "p", "segment": "s"}
    frame = declared_rows(EXECUTIONS, *({**names, **row} for row in rows.to_dict("records")))
    time = CellTime(TRACED, (("p", "s"),), LogEstimate(0.0, 0.1, 3.0), 50, False, True)
    works = {("p", "s"): work}

    found = transfer_splits({TRACED: time}, works, frame)

    assert list(found) == [TRACED.in_mode("throughput")]
    (only,) = found.values()
    assert (only.executing, only.copying) == pytest.approx((0.5, 0.1), abs=1e-4)
    assert transfer_splits({TRACED: time}, works, EXECUTIONS.empty()) == {}


@pytest.mark.parametrize(
    ("factor", "holds"), [(0.51, True), (1.9, True), (0.4, False), (13.0, False)]
)
def test_the_split_holds_for_about_as_much_exposed_transfer(factor, holds):
    work = simulated(50, 2, tail_ms=4.0)
    own = split(work, *executions_of(work, 0.5))

    found = own.of(factor * own.traced_ns)

    assert own.traced_ns == pytest.approx(4e6, rel=0.1)
    assert found.traced_ns == own.traced_ns
    assert np.isfinite(found.executing) == np.isfinite(found.copying) == holds
