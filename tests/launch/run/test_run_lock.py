import subprocess
import sys

import pytest

from hvdprof.errors import StorageError, UnreadableInputError, UsageError
from hvdprof.launch.run.bench_run import read_for_resuming
from hvdprof.launch.run.run_lock import exclusive_run
from tests.builders.run_directory import write_run

_TRY = (
    "import sys; from hvdprof.launch.run.run_lock import exclusive_run; "
    "exclusive_run(sys.argv[1]).__enter__()"
)


def try_in_another_process(folder):
    command = [sys.executable, "-c", _TRY, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_another_process_is_locked_out_until_the_first_has_ended(tmp_path):
    with exclusive_run(tmp_path):
        refused = try_in_another_process(tmp_path)
    assert "Another hvdprof is measuring into" in refused.stderr
    assert try_in_another_process(tmp_path).returncode == 0


def test_a_missing_folder_is_not_locked(tmp_path):
    with exclusive_run(tmp_path / "absent"):
        assert not (tmp_path / "absent").exists()


def test_a_run_that_others_could_exchange_is_not_resumed(tmp_path):
    folder = write_run(tmp_path / "run", [], status="interrupted")
    tmp_path.chmod(0o777)
    with pytest.raises(StorageError, match="every user may write to"):
        read_for_resuming(folder)


def test_a_run_in_progress_is_not_resumed_by_a_second_process(tmp_path):
    folder = write_run(tmp_path / "run", [], status="running")
    with exclusive_run(folder), pytest.raises(UsageError, match="Another hvdprof") as caught:
        read_for_resuming(folder)
    assert "--resume" in caught.value.hint
    with pytest.raises(UnreadableInputError, match="not a run directory"):
        read_for_resuming(tmp_path / "absent")
