from pathlib import Path

from hvdprof.launch.run.disk_reserve import SIZE_BYTES, free_room, keep_room


def test_room_is_taken_and_given_back_once(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    keep_room(path)
    assert path.stat().st_size == SIZE_BYTES
    assert free_room(path)
    assert not free_room(path)
    assert list(tmp_path.iterdir()) == []


def test_where_there_is_no_room_nothing_is_kept(tmp_path: Path) -> None:
    keep_room(tmp_path / "nowhere" / "reserve")
    assert not free_room(tmp_path / "nowhere" / "reserve")
