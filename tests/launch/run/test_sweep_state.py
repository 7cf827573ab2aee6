from pathlib import Path

from hvdprof.launch.run.sweep_state import RESERVE_BYTES, hold_disk_reserve, release_disk_reserve


def test_room_is_taken_and_given_back_once(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    hold_disk_reserve(path)
    assert path.stat().st_size == RESERVE_BYTES
    assert release_disk_reserve(path)
    assert not release_disk_reserve(path)
    assert list(tmp_path.iterdir()) == []


def test_without_disk_space_there_is_no_reserve(tmp_path: Path) -> None:
    hold_disk_reserve(tmp_path / "nowhere" / "reserve")
    assert not release_disk_reserve(tmp_path / "nowhere" / "reserve")
