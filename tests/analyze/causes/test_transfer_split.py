import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.causes.transfer_split import UNKNOWN, transfer_split, transfer_splits
from hvdprof.analyze.stats.uncertainty import LogEstimate
from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.model.tables.timeline_tables import EXECUTIONS
from tests.builders.declared_rows import declared_rows
from tests.builders.step_works import simulated

TRACED = Cell("m", 2, "horovod", "none", "average", 8, "trace")


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
