import errno
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.sources import workspace as module
from hvdprof.ingest.sources import workspace as workspaces
from hvdprof.ingest.sources.workspace import Workspace, descriptor_of, file_of_stream, small_text
from hvdprof.rundir.regular_file import shown_name


def test_the_folder_is_private_and_removed_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), Workspace() as workspace:
        folder = workspace.new_folder()
        assert workspace.new_folder() != folder
        assert folder.stat().st_mode & 0o077 == 0
        assert workspace.holds(folder / "a")
        assert not workspace.holds(Path("/usr"))
        raise ZeroDivisionError
    assert not folder.exists()


def test_the_folder_of_a_lazy_run_goes_with_the_process() -> None:
    code = """
from hvdprof.ingest.sources.workspace import Workspace
with Workspace() as workspace:
    folder = workspace.new_folder()
    workspace.keep()
assert folder.is_dir()
print(folder)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).parent.exists()


def test_the_room_on_the_disk_bounds_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    room = 600_000_000
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": room}))
    assert Workspace().most_bytes() == 100_000_000


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_command_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "hvdprof", "analyze", "-"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as running:
        while not list(tmp_path.glob("hvdprof-*/*/*")):
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(number)
        assert running.wait(30) == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_the_handler_of_sigterm_is_that_of_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Workspace() as workspace:
        workspace.new_folder()
    assert signal.getsignal(signal.SIGTERM) is before


KEEP_ONE = """
import os, signal
from hvdprof.ingest.sources.workspace import Workspace
with Workspace() as workspace:
    workspace.new_folder()
    workspace.keep()
with Workspace() as later:
    later.new_folder()
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_a_folder_for_later_use_goes_at_sigterm_after_another_one(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", KEEP_ONE], env=environment, check=False)
    assert done.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_workspace_ends_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> Path:
        with Workspace() as inner:
            return inner.new_folder()

    # Tests before may have left folders for lazily read runs.
    monkeypatch.setattr("hvdprof.ingest.sources.workspace._Folders.num_open", 0)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with ThreadPoolExecutor(1) as pool, Workspace() as workspace:
            workspace.new_folder()
            caught = signal.getsignal(signal.SIGTERM)
            assert caught is not signal.SIG_DFL
            assert not pool.submit(read).result().exists()
            assert signal.getsignal(signal.SIGTERM) is caught
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Workspace() as workspace:
            workspace.new_folder()
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


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


def test_a_file_and_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf1:872 8:6679\xff\n")
    assert small_text(tmp_path / "a") == "1:872 8:6679\ufffd\n"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        mark = "" if encoding == "utf-16" else "\ufeff"
        (tmp_path / "b").write_bytes(f"{mark}1:872\n".encode(encoding))
        assert small_text(tmp_path / "b") == "1:872\n"
    reading, writing = os.pipe()
    os.write(writing, b"1:872\n")
    os.close(writing)
    assert small_text(Path(f"/dev/fd/{reading}")) == "1:872\n"
    os.close(reading)


def test_devices_pipes_with_names_and_giants_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"x" * 1001)
    monkeypatch.setattr(module, "MOST_TEXT_BYTES", 1000)
    cases = {"/dev/zero": "a device", str(tmp_path / "pipe"): "a named pipe"}
    cases |= {
        str(tmp_path / "long"): r"more than 1\.00 kB",
        str(tmp_path / "lon"): "lon does not exist",
    }
    for name, said in cases.items():
        with pytest.raises(UnreadableInputError, match=said):
            small_text(Path(name))


def test_a_file_that_is_missing_names_what_lies_near(tmp_path: Path) -> None:
    (tmp_path / "speeds.csv").write_text("1:872\n")
    with pytest.raises(UnreadableInputError) as error:
        small_text(tmp_path / "speed.csv")
    assert error.value.hint == f"Similar: {tmp_path / 'speeds.csv'}"
