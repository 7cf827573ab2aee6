import errno
import os
import pty
import threading
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.sources import workspace as workspaces
from hvdprof.ingest.sources.streams import descriptor_of, file_of_stream
from hvdprof.ingest.sources.workspace import Workspace
from hvdprof.rundir.file_names import shown_name


def test_names_of_streams() -> None:
    names = ("-", "/dev/stdin", "/dev/fd/63", "/proc/self/fd/3", "a", "/dev/fd/x", "/dev/zero")
    found = [descriptor_of(Path(name)) for name in names]
    assert found == [0, 0, 63, 3, None, None, None]


def test_a_pipe_is_copied_and_the_copy_removed() -> None:
    reading, writing = os.pipe()
    content = os.urandom(300_000)

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(content)

    thread = threading.Thread(target=write)
    thread.start()
    name = Path(f"/dev/fd/{reading}")
    with Workspace() as workspace:
        copy = file_of_stream(name, reading, workspace)
        assert copy.read_bytes() == content
        assert shown_name(copy) == str(name)
    thread.join()
    os.close(reading)
    assert not copy.exists()


def test_a_redirected_file_is_read_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    with path.open("rb") as file, Workspace() as workspace:
        name = Path(f"/dev/fd/{file.fileno()}")
        assert file_of_stream(name, file.fileno(), workspace) == path.resolve()
        path.unlink()
        assert file_of_stream(name, file.fileno(), workspace).read_bytes() == b"1"


def test_a_stream_that_is_too_long_is_refused_at_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workspaces, "MOST_BYTES", 1000)
    reading, writing = os.pipe()
    os.write(writing, b"x" * 1001)
    with Workspace() as workspace, pytest.raises(UnreadableInputError, match=r"more than 1\.00 kB"):
        file_of_stream(Path("-"), reading, workspace)
    os.close(reading)
    os.close(writing)


def test_terminals_devices_and_what_is_closed_are_refused_at_once() -> None:
    ours, theirs = pty.openpty()
    zero = os.open("/dev/zero", os.O_RDONLY)
    closed = os.dup(zero)
    os.close(closed)
    said = {theirs: "a terminal", zero: "a device", closed: "Bad file descriptor"}
    for descriptor, what in said.items():
        with Workspace() as workspace, pytest.raises(UnreadableInputError, match=what):
            file_of_stream(Path(f"/dev/fd/{descriptor}"), descriptor, workspace)
    for descriptor in (ours, theirs, zero):
        os.close(descriptor)


def test_a_full_disk_is_not_said_of_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def full(_: Workspace) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Workspace, "new_folder", full)
    reading, writing = os.pipe()
    name = f"/dev/fd/{reading}"
    text = f"{name} cannot be copied to the temporary folder {tmp_path}: No space left"
    with Workspace() as workspace, pytest.raises(UnreadableInputError, match=text) as error:
        file_of_stream(Path(name), reading, workspace)
    assert "TMPDIR" in error.value.hint
    os.close(reading)
    os.close(writing)
