import subprocess
import sys

import pytest

from hvdprof.machine import load
from hvdprof.machine.load import CpuUse, cpu_use_between, load_average, parse_proc_stat

# Two readings of a machine with 2 cores and 100 jiffies a second, 10 s apart.
BEFORE = """cpu  23843 10 7358 136517 622 5 78 109 7 0
cpu0 8483 0 2551 73079 86 0 24 54 0 0
intr 1 2 3
"""
AFTER = """cpu  24843 10 7458 137217 722 5 78 209 7 0
cpu0 8983 0 2651 73779 186 0 24 54 0 0
"""


def test_busy_time_is_everything_but_idle_waiting_and_stolen() -> None:
    jiffies = parse_proc_stat(BEFORE)
    assert jiffies.busy == 23843 + 10 + 7358 + 5 + 78
    assert jiffies.steal == 109
    assert jiffies.total == jiffies.busy + 136517 + 622 + 109


def test_old_kernels_with_four_columns() -> None:
    jiffies = parse_proc_stat("cpu  1 2 3 4\n")
    assert (jiffies.busy, jiffies.steal, jiffies.total) == (6, 0, 10)


def test_text_without_the_line_of_all_processors() -> None:
    with pytest.raises(ValueError, match="no line of all processors"):
        parse_proc_stat("cpu0 1 2 3 4\nintr 5\n")
    with pytest.raises(ValueError, match="no line of all processors"):
        parse_proc_stat("cpu0 1 2 3 4\n", cores=[0, 1])


def test_only_the_cores_that_are_ours_count() -> None:
    text = "cpu 9 9 9 9\ncpu0 1 0 0 5\ncpu1 2 0 0 5\ncpu2 100 0 0 5\n"
    assert parse_proc_stat(text, cores=[0, 1]).busy == 3


def test_other_cores_are_what_we_did_not_use_ourselves() -> None:
    result = cpu_use_between(
        parse_proc_stat(BEFORE), parse_proc_stat(AFTER), own_cpu_s=5.0, wall_s=10.0, ticks_per_s=100
    )
    # 1100 busy jiffies = 11 s, 5 of them ours: 6 s within 10 s.
    assert result.other_cores == pytest.approx(0.6)
    assert result.steal_share == pytest.approx(100 / 2000)
    assert result.wall_s == 10.0


def test_other_cores_are_never_negative() -> None:
    same = parse_proc_stat(BEFORE)
    result = cpu_use_between(same, same, own_cpu_s=0.01, wall_s=0.02, ticks_per_s=100)
    assert (result.other_cores, result.steal_share) == (0.0, 0.0)


def test_an_interval_without_length() -> None:
    same = parse_proc_stat(BEFORE)
    assert cpu_use_between(same, same, own_cpu_s=0.0, wall_s=0.0, ticks_per_s=100).other_cores == 0


def test_stop_needs_a_start() -> None:
    with pytest.raises(RuntimeError, match="before"):
        CpuUse().stop()


def test_no_result_without_proc_stat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_read_jiffies", lambda: None)
    use = CpuUse()
    use.start()
    assert use.stop() is None


@pytest.mark.slow
def test_our_own_children_are_not_others() -> None:
    use = CpuUse()
    use.start()
    program = "import time\nend = time.process_time() + 1.0\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", program], check=True)
    ours, as_others = use.stop(), use.stop(own_cpu_s=0.0)
    assert ours is not None
    assert as_others is not None
    assert ours.wall_s >= 1.0
    # The child worked for a second of the interval; as another process it would count.
    assert as_others.other_cores - ours.other_cores > 0.5 / ours.wall_s


def test_load_average_is_the_systems() -> None:
    load_now = load_average()
    assert load_now is not None
    assert load_now >= 0
