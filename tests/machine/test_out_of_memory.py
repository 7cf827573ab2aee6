from pathlib import Path

from hvdprof.machine.out_of_memory import oom_kills


def test_the_count_of_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "vmstat"
    path.write_text("nr_free_pages 7\noom_kill 3\noom_kill_other 9\n")

    assert oom_kills(path) == 3


def test_a_kernel_without_a_count(tmp_path: Path) -> None:
    path = tmp_path / "vmstat"
    assert oom_kills(path) is None
    path.write_text("nr_free_pages 7\n")
    assert oom_kills(path) is None


def test_this_kernel() -> None:
    number = oom_kills()
    assert number is None or number >= 0
