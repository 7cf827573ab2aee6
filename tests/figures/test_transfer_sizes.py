import numpy as np
import pytest

from hvdprof.figures.transfer_sizes import bus_bandwidth, by_size, transfer_by_size
from hvdprof.model.tables.collective_tables import COLLECTIVES, LINK_FIT
from hvdprof.model.tables.nccl_call_tables import NCCL_CHOICES
from hvdprof.model.tables.printed_tables import NCCL_TESTS
from hvdprof.model.tables.run_tables import SEGMENTS
from tests.builders.collectives import collective_row
from tests.builders.traced_run import segment_row

NAN = float("nan")
TWO_RANKS = SEGMENTS.frame([segment_row(size=2)])


def fit_row(**values):
    row = {
        "np": 2,
        "collective": "ALLREDUCE",
        "num_executions": 4,
        "num_sizes": 4,
        "smallest_bytes": 1_000_000,
        "largest_bytes": 8_000_000,
        "alpha_ns": 1e6,
        "alpha_low_ns": 0.9e6,
        "alpha_high_ns": 1.1e6,
        "beta_ns_per_mb": 2e6,
        "beta_low_ns_per_mb": 1.9e6,
        "beta_high_ns_per_mb": 2.1e6,
        "bandwidth_gb_per_s": 0.5,
        "bandwidth_low_gb_per_s": 0.48,
        "bandwidth_high_gb_per_s": 0.53,
        "reason": "",
    }
    return row | values


def drawn(rows, fits=(), choices=None):
    return transfer_by_size(
        COLLECTIVES.frame(rows) if rows else COLLECTIVES.empty(),
        TWO_RANKS,
        LINK_FIT.frame(list(fits)) if fits else LINK_FIT.empty(),
        NCCL_CHOICES.empty() if choices is None else NCCL_CHOICES.frame(choices),
    )


def test_points_are_medians_and_the_line_is_the_fit():
    rows = [collective_row(1_000_000, time) for time in (2.9, 3.0, 3.4)]
    figure = drawn([*rows, collective_row(8_000_000, 17.0)], [fit_row()])
    points, line = figure.data
    assert points.name == "ALLREDUCE, np=2"
    assert list(points.x) == [1e6, 8e6]
    assert list(points.y) == pytest.approx([3.0, 17.0])
    assert (line.y[0], line.y[-1]) == pytest.approx((3.0, 17.0))
    assert line.name == "fit: 1.00 ms + 2.00 ms per MB (0.500 GB/s)"
    assert "bandwidth 0.500 GB/s (0.480 to 0.530)" in line.hovertext
    assert "beta 2.00 ms/MB (1.90 to 2.10)" in line.hovertext


def test_a_fit_with_a_reason_against_it_is_not_drawn():
    figure = drawn([collective_row(1_000_000, 3.0)], [fit_row(reason="one payload only")])
    assert len(figure.data) == 1


def test_warmup_and_unknown_sizes_are_left_out():
    rows = [
        collective_row(None, 3.0),
        collective_row(1_000_000, 3.0, warmup=True),
        collective_row(1_000_000, 0.0),
    ]
    assert "collective of known size" in drawn(rows).layout.annotations[0].text
    assert drawn([]).layout.annotations


def test_a_file_without_segments_has_no_number_of_ranks():
    table = by_size(
        COLLECTIVES.frame([collective_row(1_000_000, 3.0)]), SEGMENTS.empty(), "transfer_ns"
    )
    assert table["np"].tolist() == [0]


def test_many_payloads_are_put_together():
    rows = [collective_row(1000 + 7 * number, 3.0) for number in range(1000)]
    table = by_size(COLLECTIVES.frame(rows), TWO_RANKS, "transfer_ns")
    assert len(table) <= 300
    assert table["num"].sum() == 1000
    assert table["size_bytes"].min() == pytest.approx(1000)


def test_what_nccl_expects_stands_beside_it():
    choice = {
        "operation": "AllReduce",
        "size_bytes": 1_000_000,
        "algorithm": "RING",
        "protocol": "<b>LL</b>",
        "first_channel": None,
        "last_channel": None,
        "time_ns": 0.5e6,
        "host": "h",
        "pid": 1,
        "file": "f",
        "line": 1,
    }
    expected = drawn([collective_row(1_000_000, 3.0)], choices=[choice]).data[-1]
    assert list(expected.y) == pytest.approx([0.5])
    assert "&lt;b&gt;LL" in expected.hovertext[0]


def test_the_best_of_nccl_tests_stands_beside_the_job():
    row = {
        "file": "<i>a2.txt</i>",
        "line": 1,
        "run": 0,
        "size_bytes": 1_000_000,
        "count": None,
        "dtype": "float",
        "redop": "sum",
        "root": -1,
        "in_place": True,
        "time_ns": 1000,
        "algbw_gb_s": 5.0,
        "busbw_gb_s": 8.0,
        "num_wrong": 0,
        "max_error": NAN,
    }
    tests = NCCL_TESTS.frame([row, row | {"busbw_gb_s": 9.0, "in_place": False}])
    rows = COLLECTIVES.frame([collective_row(1_000_000, 3.0, busbw_gb_per_s=0.4)])
    job, reached = bus_bandwidth(rows, TWO_RANKS, tests).data
    assert list(job.y) == pytest.approx([0.4])
    assert list(reached.y) == [9.0]
    assert reached.name == "nccl-tests: &lt;i&gt;a2.txt&lt;/i&gt;"
    assert np.isclose(reached.x[0], 1e6)
