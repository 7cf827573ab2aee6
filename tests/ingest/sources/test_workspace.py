import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hvdprof.ingest.sources.workspace import Workspace


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
