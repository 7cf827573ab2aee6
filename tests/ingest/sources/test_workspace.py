import subprocess
import sys
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
