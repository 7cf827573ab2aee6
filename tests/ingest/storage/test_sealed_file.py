import os
import time
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from hvdprof.ingest.storage.sealed_file import find_sealed, opened, seal, sealed_names, source_key


def test_the_same_file_has_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(os.urandom(1_000_000))
    assert source_key([path]) == source_key([path])
    (tmp_path / "link").symlink_to("a")
    assert source_key([tmp_path / "link"]) == source_key([path])


@pytest.mark.slow
def test_a_change_right_after_the_key_changes_the_key(tmp_path: Path) -> None:
    """The kernel stamps changes coarsely: without a pause some of these would look alike."""
    path = tmp_path / "a"
    path.write_bytes(bytes(1_000_000))
    for number in range(20):
        with path.open("r+b") as file:
            file.seek(500_001)
            file.write(bytes([number]))
        before = source_key([path])
        with path.open("r+b") as file:
            file.seek(500_001)
            file.write(bytes([number + 100]))
        assert source_key([path]) != before


def test_a_file_of_the_future_does_not_make_it_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.touch()
    slept_s: list[float] = []
    monkeypatch.setattr(time, "sleep", slept_s.append)
    for age_s, waits in ((-10, False), (0, True), (10, False)):
        now_ns = path.stat().st_ctime_ns + age_s * 10**9
        monkeypatch.setattr(time, "time_ns", lambda now_ns=now_ns: now_ns)
        slept_s.clear()
        source_key([path])
        assert bool(slept_s) is waits, age_s


def test_a_sealed_file_has_its_checksum_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "a-k.parquet").write_bytes(b"content")
    sealed = seal(tmp_path / "a-k.parquet")
    assert sealed.name == f"a-k-{zlib.crc32(b'content'):08x}.parquet"
    assert find_sealed(tmp_path, "a-k", sealed) == sealed
    assert sealed_names(tmp_path, "a-k") == [sealed.name]
    assert find_sealed(tmp_path, "a", sealed) is None
    sealed.write_bytes(b"c0ntent")
    assert find_sealed(tmp_path, "a-k", sealed) is None


def test_a_folder_that_is_not_there_holds_none(tmp_path: Path) -> None:
    assert find_sealed(tmp_path / "none", "a", tmp_path) is None


def test_an_open_file_outlives_its_name_of_any_bytes(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    path.write_bytes(b"content")
    file = opened(path)
    path.unlink()
    assert file.read() == b"content"
    with pytest.raises(FileNotFoundError):
        opened(path)
    assert isinstance(file, pa.NativeFile)
