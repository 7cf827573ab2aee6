import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hvdprof.errors import StorageError
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.written_file import (
    append_run_bytes,
    check_place,
    file_mode,
    make_place,
    make_run_folders,
    mode_of_files,
    open_descriptor,
    open_run_file,
    open_whole,
    write_whole,
)


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
    assert raised.value.hint == "Add --force, or overwrite=True in Python."
    assert path.read_text() == "old"
    write_whole(path, "new")
    assert path.read_text() == "new"


def test_a_name_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    write_whole(path, "[]" * 1000)
    assert gzip.decompress(path.read_bytes()) == b"[]" * 1000


@pytest.mark.parametrize("name", ["names.json", "names.json.gz"])
def test_a_name_that_is_no_utf_8_is_written_as_json_escapes_it(tmp_path: Path, name: str) -> None:
    script = os.fsdecode(b"train\xff.py")
    write_whole(tmp_path / name, json.dumps({"ä": script}, ensure_ascii=False))
    written = (tmp_path / name).read_bytes()
    text = (gzip.decompress(written) if name.endswith("gz") else written).decode()
    assert json.loads(text) == {"ä": script}


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


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def made_run(folder: Path, mode: int) -> Path:
    folder.mkdir(exist_ok=True)
    RunPaths(folder).manifest.touch()
    folder.chmod(mode)
    return folder


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("_umask")
@pytest.mark.parametrize(
    ("run_mode", "folder_mode", "mode"),
    [(0o700, 0o700, 0o600), (0o750, 0o750, 0o640), (0o755, 0o755, 0o644), (0o770, 0o750, 0o640)],
    ids=["own", "shared", "given by the user", "never writable for others"],
)
def test_files_and_folders_are_as_open_as_their_run(
    tmp_path: Path, run_mode: int, folder_mode: int, mode: int
) -> None:
    folder = RunPaths(made_run(tmp_path / "run", run_mode)).of_pass("01-np2").recorder_folder

    make_run_folders(folder)
    with open_run_file(folder / "text") as text, append_run_bytes(folder / "bytes") as data:
        text.write("é\n")
        data.write(b"a")
    os.close(open_descriptor(folder / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL))

    assert {mode_of(one) for one in (folder, folder.parent, folder.parent.parent)} == {folder_mode}
    assert {mode_of(folder / name) for name in ("text", "bytes", "new")} == {mode}
    assert file_mode(folder / "text") == mode_of_files(tmp_path / "run") == mode


@pytest.mark.usefixtures("_umask")
def test_where_no_manifest_is_seen_the_owner_alone_reads(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    folder = tmp_path / "on-another-host" / "passes" / "01"
    make_run_folders(folder)
    open_run_file(folder / "stdout.txt", "w").close()
    assert mode_of(folder) == mode_of(folder.parent.parent) == 0o700
    assert mode_of(folder / "stdout.txt") == mode_of_files(tmp_path / "none") == 0o600


def test_a_file_that_exists_is_continued_and_keeps_its_mode(tmp_path: Path) -> None:
    path = made_run(tmp_path, 0o700) / "stdout.txt"
    path.write_text("a")
    path.chmod(0o644)
    with append_run_bytes(path) as file:
        file.write(b"b")
    assert (path.read_text(), mode_of(path)) == ("ab", 0o644)
    with open_run_file(path, "w") as text:
        text.write("c")
    assert path.read_text() == "c"
    with pytest.raises(FileExistsError):
        open_descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with pytest.raises(FileNotFoundError):
        open_descriptor(tmp_path / "none", os.O_RDONLY)


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_text("mine")
    folder = made_run(tmp_path / "run", 0o700)
    (folder / "stdout.txt").symlink_to(private)
    (folder / "dangling").symlink_to(tmp_path / "new")
    for name in ("stdout.txt", "dangling"):
        for opening in (append_run_bytes, open_run_file):
            with pytest.raises(OSError, match="it is a link, as no file of a run is"):
                opening(folder / name)
    assert private.read_text() == "mine"
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_folder_of_another_user_gives_no_one_the_right_to_read(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "run", 0o755)
    assert mode_of_files(folder) == file_mode(folder / "a") == 0o644
    os.chown(folder, 12345, 12345)
    assert mode_of_files(folder) == file_mode(folder / "a") == 0o600


@pytest.mark.usefixtures("_umask")
def test_the_folders_above_a_run_are_made_for_this_user_to_write_to(tmp_path: Path) -> None:
    make_place(tmp_path / "a" / "b" / "run")
    assert {mode_of(tmp_path / "a"), mode_of(tmp_path / "a" / "b")} <= {0o755, 0o700}
    assert not (tmp_path / "a" / "b" / "run").exists()
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(
        StorageError, match=r"A run cannot be written to .*: every user may write to .*/a\."
    ) as one:
        check_place(tmp_path / "a" / "run")
    assert "mkdir -m 700" in one.value.hint
