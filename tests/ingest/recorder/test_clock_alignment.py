import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.recorder.clock_alignment import UNKNOWN_ERROR_NS, alignment_of
from hvdprof.ingest.recorder.recorder_file import Exchange, RecorderFile

HEADER = {"rank": 1, "monotonic_ns": 500, "wall_ns": 10_500, "host": {"boot_id": "a"}}


def exchange(monotonic_ns: int, offset_ns: int, error_ns: int = 7, method: str = "tcp") -> Exchange:
    return Exchange(monotonic_ns, offset_ns, error_ns, method)


@pytest.mark.heavy
@given(
    offset_ns=st.integers(-(10**15), 10**15),
    drift_ppm=st.floats(-200, 200),
    start_ns=st.integers(0, 10**16),
    length_ns=st.integers(10**6, 10**13),
    at=st.floats(0, 1),
)
def test_a_clock_of_constant_rate_is_undone(
    offset_ns: int, drift_ppm: float, start_ns: int, length_ns: int, at: float
) -> None:
    def offset_at(monotonic_ns: int) -> int:
        return offset_ns + round(drift_ppm * 1e-6 * (monotonic_ns - start_ns))

    end_ns = start_ns + length_ns
    file = RecorderFile(
        exchanges=[exchange(start_ns, offset_at(start_ns)), exchange(end_ns, offset_at(end_ns))]
    )
    time_ns = start_ns + round(at * length_ns)
    (aligned_ns,) = alignment_of(file, None).aligned_ns(np.asarray([time_ns]))
    assert abs(int(aligned_ns) - (time_ns + offset_at(time_ns))) <= 2


def test_the_error_is_the_larger_of_both_exchanges() -> None:
    file = RecorderFile(exchanges=[exchange(0, 5, 30), exchange(100, 5, 80)])
    assert list(alignment_of(file, None).errors_ns(np.asarray([0, 50]))) == [80, 80]


def test_a_damaged_exchange_leaves_the_error_unknown() -> None:
    file = RecorderFile(exchanges=[exchange(0, 5), exchange(100, 2**60)])
    times = np.asarray([0, 2**60])
    assert list(alignment_of(file, None).aligned_ns(times)) == [5, 2**60 + 5]
    assert list(alignment_of(file, None).errors_ns(times)) == [UNKNOWN_ERROR_NS] * 2


def test_without_a_second_exchange_the_error_grows() -> None:
    file = RecorderFile(exchanges=[exchange(0, 5, 30)])
    assert list(alignment_of(file, None).errors_ns(np.asarray([0, 10**9]))) == [30, 100_030]


def test_one_clock_does_not_drift_from_itself() -> None:
    file = RecorderFile(exchanges=[exchange(0, 0, 0, "same-clock")])
    assert list(alignment_of(file, None).errors_ns(np.asarray([10**9]))) == [0]


def test_processes_of_one_boot_share_the_clock() -> None:
    alignment = alignment_of(RecorderFile(header=HEADER), RecorderFile(header=HEADER | {"rank": 0}))
    assert (alignment.method, alignment.offset_ns, alignment.error_ns) == ("same-clock", 0, 0)


def test_across_hosts_the_wall_clocks_stand_in_with_an_unknown_error() -> None:
    rank_0 = RecorderFile(header={"monotonic_ns": 0, "wall_ns": 9_000, "host": {"boot_id": "b"}})
    alignment = alignment_of(RecorderFile(header=HEADER), rank_0)
    assert alignment.method == "wall-clock"
    assert alignment.aligned_ns(np.asarray([500])) == [1_500]
    assert alignment.error_ns == UNKNOWN_ERROR_NS


def test_without_anything_to_go_by_the_error_is_unknown() -> None:
    alignment = alignment_of(RecorderFile(), None)
    assert (alignment.method, alignment.error_ns) == ("none", UNKNOWN_ERROR_NS)
