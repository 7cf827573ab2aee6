import time

import pytest

from hvdprof.errors import UsageError
from hvdprof.rundir.recording.fault_plan import (
    ClockFault,
    clock_of,
    parse_fault,
    parse_faults,
    to_text,
)


def test_a_clock_fault_is_read_and_written():
    text = "clock:rank=1+3,offset=-5ms,drift=20ppm"

    fault = parse_fault(text)

    assert fault == ClockFault(text=text, offset_ns=-5e6, drift_ppm=20.0, ranks=(1, 3))
    assert parse_faults(to_text([fault, parse_fault("clock:offset=2us")]))[1].offset_ns == 2000.0


@pytest.mark.parametrize(
    "text",
    [
        "clock:rank=1",
        "clock:offset=5",
        "clock:offset=5h",
        "clock:offset=4000s",
        "clock:drift=20",
        "clock:drift=1e9ppm",
        "clock:offset=5ms,phase=data",
        "clock:offset=5ms,amount=3ms",
    ],
)
def test_what_is_no_clock_fault_is_refused(text):
    with pytest.raises(UsageError):
        parse_fault(text)


def test_only_the_given_ranks_read_a_skewed_clock(monkeypatch):
    fault = ClockFault(text="", offset_ns=5e6, drift_ppm=100.0, ranks=(1,))
    now = [1_000_000_000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])

    right, wrong = clock_of([fault], 0), clock_of([fault], 1)
    now[0] += 2_000_000_000

    assert right() == now[0]
    # 5 ms ahead, and 100 microseconds a second in two seconds.
    assert wrong() == now[0] + 5_000_000 + 200_000


def test_faults_of_a_clock_add_up():
    faults = [ClockFault(text="", offset_ns=1e9, drift_ppm=0.0) for _ in range(2)]

    assert clock_of(faults, 7)() - time.monotonic_ns() == pytest.approx(2e9, abs=1e8)
