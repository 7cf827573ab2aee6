import numpy as np
import pytest

from hvdprof.figures.timeline.counters import executions_of
from hvdprof.model.tables.collective_tables import COLLECTIVES
from tests.builders.declared_rows import declared_rows


def executions(*rows):
    """Executions of (start, length, bytes, busbw)."""
    return executions_of([collectives(*rows)], "p")


def collectives(*rows, **values):
    return declared_rows(
        COLLECTIVES,
        *(
            {
                "pass_id": "p",
                "start_ns": start,
                "dur_ns": length,
                "size_bytes": size,
                "busbw_gb_per_s": busbw,
            }
            | values
            for start, length, size, busbw in rows
        ),
    )


def test_bytes_in_flight_are_the_mean_of_what_runs():
    found = executions((0, 10, 100, 1.0), (5, 10, 40, 1.0))
    edges = np.array([0, 5, 10, 15, 20])
    assert found.in_flight(edges).tolist() == pytest.approx([100, 140, 40, 0])
    # Half of the bin.
    assert found.in_flight(np.array([0, 20]))[0] == pytest.approx((100 * 10 + 40 * 10) / 20)


def test_bandwidth_is_weighted_by_time_and_unknown_where_nothing_runs():
    found = executions((0, 10, 100, 2.0), (10, 30, 40, 6.0))
    bandwidth = found.bus_bandwidth(np.array([0, 20, 40, 60]))
    assert bandwidth[:2].tolist() == pytest.approx([4.0, 6.0])
    assert np.isnan(bandwidth[2])


def test_a_nanosecond_late_in_a_long_pass_is_exact():
    hour = 3_600 * 10**9
    found = executions(*[(n * 10**6, 10**5, 10**8, 3.0) for n in range(1000)], (hour, 10, 7, 2.5))
    edges = hour + np.arange(4)
    assert found.in_flight(edges).tolist() == [7, 7, 7]
    assert found.bus_bandwidth(edges).tolist() == pytest.approx([2.5] * 3)


def test_executions_in_view():
    found = executions((20, 10, 1, 1.0), (0, 10, 1, 1.0))
    assert found.start_ns.tolist() == [0, 20]
    assert found.between(10, 20).tolist() == []
    assert found.between(9, 21).tolist() == [0, 1]


def test_pieces_give_the_executions_of_the_pass_in_order_of_time():
    found = executions_of(
        [
            collectives((20, 10, 40, 6.0), segment="second"),
            collectives((5, 10, 7, 1.0), pass_id="other"),
            collectives((0, 10, 100, 2.0), (15, None, 1, 1.0), segment="first"),
        ],
        "p",
    )
    assert found.start_ns.tolist() == [0, 20]
    assert found.bytes.tolist() == [100, 40]
    assert [found.segments[one] for one in found.segment] == ["first", "second"]
    assert len(executions_of([], "p")) == 0
