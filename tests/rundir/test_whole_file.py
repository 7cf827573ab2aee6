import gzip
import os
from pathlib import Path

import pytest

from hvdprof.errors import StorageError
from hvdprof.rundir.whole_file import open_whole, write_whole


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.txt"
    with open_whole(path) as file:
        file.write("half")
        assert not path.exists()
    assert path.read_text() == "half"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_in_between_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), open_whole(path) as file:
        file.write("new")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    write_whole(path, "old")
    with pytest.raises(StorageError, match=r"report\.txt exists") as raised:
        write_whole(path, "new", overwrite=False)
    assert raised.value.hint == "Add --force."
    assert path.read_text() == "old"
    write_whole(path, "new")
    assert path.read_text() == "new"


def test_a_name_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    write_whole(path, "[]" * 1000)
    assert gzip.decompress(path.read_bytes()) == b"[]" * 1000


def test_a_folder_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Could not write"):
        write_whole(tmp_path / "file" / "report.txt", "x")


def test_others_may_read_what_was_written(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "report.txt", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "report.txt").stat().st_mode & 0o777 == 0o644


def test_a_name_that_is_too_long_is_refused_and_the_longest_is_written(tmp_path):
    for overwrite in (False, True):
        with pytest.raises(StorageError, match="File name too long"):
            write_whole(tmp_path / ("x" * 300), "", overwrite=overwrite)

    longest = tmp_path / ("x" * 255)
    write_whole(longest, "text")

    assert [path.read_text() for path in tmp_path.iterdir()] == ["text"]
