import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hvdprof.errors import StorageError, UnreadableInputError, UsageError
from hvdprof.launch.run.bench_run import read_for_resuming
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status
from hvdprof.rundir.run_lock import RECENT_S, Writer, exclusive_run, is_written
from tests.builders.run_directory import PassSpec, write_run

_TRY = (
    "import sys; from hvdprof.rundir.run_lock import exclusive_run; "
    "exclusive_run(sys.argv[1]).__enter__()"
)
_HOLD = (
    "import sys; from pathlib import Path; from hvdprof.rundir.run_lock import exclusive_run\n"
    "with exclusive_run(Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
)


def try_in_another_process(folder):
    command = [sys.executable, "-c", _TRY, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def age(folder: Path) -> None:
    """Make all files of a run older than those of a run in progress."""
    for path in [folder, *folder.rglob("*")]:
        about = path.stat()
        os.utime(path, (about.st_atime, about.st_mtime - RECENT_S - 60))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose manifest says that it is being measured, by this host."""
    folder = tmp_path / "run"
    folder.mkdir()
    with exclusive_run(folder) as writer:
        pass
    return write_run(folder, [PassSpec(status="running")], status="running", writer=writer)


def test_another_process_is_locked_out_until_the_first_has_ended(tmp_path):
    with exclusive_run(tmp_path):
        refused = try_in_another_process(tmp_path)
    assert "Another hvdprof is measuring into" in refused.stderr
    assert try_in_another_process(tmp_path).returncode == 0


def test_a_lock_can_be_handed_on_to_the_next_block(tmp_path):
    with exclusive_run(tmp_path, keep=True) as first:
        pass
    assert "Another hvdprof" in try_in_another_process(tmp_path).stderr
    with exclusive_run(tmp_path) as second:
        assert second == first
        assert "Another hvdprof" in try_in_another_process(tmp_path).stderr
    assert try_in_another_process(tmp_path).returncode == 0


def test_a_lock_ends_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="bad"), exclusive_run(tmp_path, keep=True):
        raise ValueError("bad")
    assert try_in_another_process(tmp_path).returncode == 0


def test_a_missing_folder_is_not_locked(tmp_path):
    with exclusive_run(tmp_path / "absent"):
        assert not (tmp_path / "absent").exists()


def test_a_run_in_progress_is_not_resumed_by_a_second_process(tmp_path):
    folder = write_run(tmp_path / "run", [], status="running")
    with exclusive_run(folder), pytest.raises(UsageError, match="Another hvdprof") as caught:
        read_for_resuming(folder)
    assert "--resume" in caught.value.hint
    with pytest.raises(UnreadableInputError, match="not a run directory"):
        read_for_resuming(tmp_path / "absent")


def test_a_run_is_in_progress_as_long_as_its_writer_lives(run: Path) -> None:
    command = [sys.executable, "-c", _HOLD, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"locked\n"
        # However long its ranks have written nothing.
        age(run)
        assert Manifest.read(run).status == Status.RUNNING
        holder.kill()
        holder.wait()
    manifest = Manifest.read(run)
    assert (manifest.status, manifest.was_killed) == (Status.INTERRUPTED, True)


def test_a_copy_is_not_measured_into(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with exclusive_run(run):
        shutil.copytree(run, copy)
        assert Manifest.read(run).status == Status.RUNNING
        assert Manifest.read(copy).status == Status.INTERRUPTED


def test_a_copy_from_another_host_is_not_measured_into(run: Path) -> None:
    assert not is_written(run, Writer(kernel="of another host", inode=run.stat().st_ino + 1))


@pytest.mark.parametrize("kernel", ["of another host", ""])
def test_where_the_lock_says_nothing_the_files_do(run: Path, kernel: str) -> None:
    writer = Writer(kernel=kernel, inode=run.stat().st_ino)
    assert is_written(run, writer)
    age(run)
    assert not is_written(run, writer)
    # The cache of a reader is no sign of life.
    (run / "passes" / "01-np1-throughput-r1" / ".hvdprof-cache").mkdir()
    assert not is_written(run, writer)
    paths = RunPaths(run).of_pass("01-np1-throughput-r1")
    os.utime(paths.recorder_file(0))
    assert is_written(run, writer)


def test_a_file_system_without_locks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(handle: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with exclusive_run(run) as writer:
        assert writer.kernel == ""
        assert is_written(run, writer)
    age(run)
    assert not is_written(run, writer)


def test_a_manifest_of_an_earlier_version_is_judged_by_its_files(run: Path) -> None:
    assert is_written(run, None)
    age(run)
    assert not is_written(run, None)


def test_who_only_looks_does_not_keep_a_run_from_starting(run: Path) -> None:
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            is_written(run, None)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(200):
            with exclusive_run(run):
                pass
    finally:
        done.set()
        watcher.join()


def test_the_last_word_of_a_run_names_no_writer(run: Path) -> None:
    manifest = Manifest.read(run)
    manifest.status = Status.DONE
    manifest.write(RunPaths(run))
    again = Manifest.read(run)
    assert (again.writer, again.was_killed) == (None, False)


def test_a_run_that_others_could_exchange_is_not_resumed(tmp_path):
    folder = write_run(tmp_path / "run", [], status="interrupted")
    tmp_path.chmod(0o777)
    with pytest.raises(StorageError, match="every user may write to"):
        read_for_resuming(folder)
