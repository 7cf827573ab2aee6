import numpy as np

from benchmarks.loop_times import loop_times
from hvdprof.analyze.predict.horovod_loop import LoopSettings, idle_period

US, MS = 1e3, 1e6


def test_times_of_the_loop_are_those_around_its_marks():
    # Cycles of 1 ms whose sleeps end 80 us late; the third executes twice, for 3 ms.
    marks = np.array([0.0, 1.08, 2.16, 5.3, 6.38]) * MS
    starts = np.array([2.2, 4.0]) * MS

    times = loop_times(marks, starts, 1.0 * MS)

    assert np.round(times.negotiation_ns / US).tolist() == [40]
    assert np.round(times.wakeup_ns / US).tolist() == [80, 80, 80]


def test_they_give_the_period_of_the_idle_loop():
    marks = np.arange(10) * 5.07 * MS

    times = loop_times(marks, np.empty(0), 5.0 * MS)

    settings = LoopSettings(cycle_ns=5.0 * MS, wakeup_ns=float(np.median(times.wakeup_ns)))
    assert np.round(idle_period(settings) / US) == 5070


def test_executions_before_the_first_mark_do_not_count():
    times = loop_times(np.array([10.0, 20.0]), np.array([5.0]), 10.0)

    assert len(times.negotiation_ns) == 0
    assert len(loop_times(np.empty(0), np.array([5.0]), 10.0).wakeup_ns) == 0
