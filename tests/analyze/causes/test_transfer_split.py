import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.causes.transfer_split import executing_share, executing_shares
from hvdprof.analyze.stats.intervals import union
from hvdprof.analyze.stats.uncertainty import LogEstimate
from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.model.tables.timeline_tables import EXECUTIONS
from tests.builders.declared_rows import declared_rows
from tests.builders.step_works import simulated

TRACED = Cell("m", 2, "horovod", "none", "average", 8, "trace")


def executions_of(work, share, begin=0.0):
    """One execution per step: from a part of the tail on, as long as a share of it."""
    arrival, tail = work.arrived.max(axis=1), work.tail[:, 0]
    return arrival + begin * tail, share * tail


@pytest.mark.parametrize(("begin", "share"), [(0.0, 1.0), (0.4, 0.6), (0.2, 0.3)])
def test_the_share_is_what_executions_cover_after_the_last_arrival(begin, share):
    work = simulated(50, 4, tail_ms=5.0)
    start, length = executions_of(work, share, begin)

    found = executing_share(work, union(start.astype(np.int64), (start + length).astype(np.int64)))

    assert found == pytest.approx(share, abs=1e-4)


def test_executions_under_backward_are_not_counted():
    work = simulated(50, 2)
    end = work.arrived.max(axis=1).astype(np.int64)

    assert executing_share(work, union(end - 3_000_000, end)) == 0


def test_overlapping_executions_count_once():
    work = simulated(50, 2)
    start, length = (times.astype(np.int64) for times in executions_of(work, 0.5))

    twice = union(np.tile(start, 2), np.tile(start + length, 2))

    assert executing_share(work, twice) == pytest.approx(0.5, abs=1e-4)


def test_without_time_after_the_arrival_the_share_is_unknown():
    work = simulated(5, 2, tail_ms=0.0)
    assert np.isnan(executing_share(work, union(np.array([0]), np.array([1]))))


def test_the_launches_in_trace_mode_speak_for_the_cell_in_throughput_mode():
    work = simulated(50, 2)
    start, length = executions_of(work, 0.5)
    rows = pd.DataFrame({"start_ns": start.astype(np.int64), "dur_ns": length.astype(np.int64)})
    names = {"pass_id": "p", "segment": "s"}
    frame = declared_rows(EXECUTIONS, *({**names, **row} for row in rows.to_dict("records")))
    time = CellTime(TRACED, (("p", "s"),), LogEstimate(0.0, 0.1, 3.0), 50, False, True)
    works = {("p", "s"): work}

    found = executing_shares({TRACED: time}, works, frame)

    assert found == {TRACED.in_mode("throughput"): pytest.approx(0.5, abs=1e-4)}
    assert executing_shares({TRACED: time}, works, EXECUTIONS.empty()) == {}
