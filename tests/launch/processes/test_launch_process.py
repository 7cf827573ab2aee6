import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError, InterruptedRunError, StorageError
from hvdprof.launch.processes.interruption import interruptible, interruptible_within_others
from hvdprof.launch.processes.launch_process import LaunchOutcome, Watch, run_to_end
from hvdprof.launch.processes.marked_processes import marked_processes
from tests.builders.processes import is_running

NO_WATCH = Watch(progress=lambda: 0, timeout_s=60.0)
ORPHAN = "setsid sleep 321.5 & echo $! > {pid}; disown; {then}"


def _run(tmp_path: Path, script: str, watch: Watch = NO_WATCH) -> LaunchOutcome:
    return run_to_end(
        ["bash", "-c", script],
        dict(os.environ),
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        watch=watch,
    )


def test_output_and_exit_code_are_recorded(tmp_path: Path) -> None:
    outcome = _run(tmp_path, "echo hello; echo oops >&2; exit 7")
    assert (outcome.exit_code, outcome.hung) == (7, False)
    assert (tmp_path / "out").read_text() == "hello\n"
    assert (tmp_path / "err").read_text() == "oops\n"


def test_no_standard_input_is_handed_on(tmp_path: Path) -> None:
    assert _run(tmp_path, "read line && exit 1 || exit 0").exit_code == 0


def test_a_process_in_another_session_is_gone_when_the_launcher_has_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    _run(tmp_path, ORPHAN.format(pid=pid_file, then="sleep 0.3; exit 0"))
    assert not is_running(int(pid_file.read_text()))


@pytest.mark.slow
def test_no_progress_counts_as_a_hang_and_leaves_nothing_behind(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    outcome = _run(
        tmp_path,
        ORPHAN.format(pid=pid_file, then="sleep 3600"),
        Watch(progress=lambda: 1, timeout_s=0.6),
    )
    assert outcome.hung
    assert not is_running(int(pid_file.read_text()))


@pytest.mark.slow
def test_progress_keeps_a_slow_launchis_running(tmp_path: Path) -> None:
    ticks: Iterator[int] = iter(range(10_000))
    outcome = _run(tmp_path, "sleep 1.5", Watch(progress=lambda: next(ticks), timeout_s=0.6))
    assert (outcome.exit_code, outcome.hung) == (0, False)


def test_a_launcher_that_outlives_its_ranks_is_ended_with_what_they_left(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    watch = Watch(progress=lambda: 1, timeout_s=60.0, have_exited=pid_file.exists)
    # As launchers do, it waits for the end of the output that the daemon holds open.
    outcome = _run(tmp_path, f"(setsid sleep 321.5 & echo $! > {pid_file}) | cat; exit 9", watch)
    assert (outcome.exit_code, outcome.hung) == (0, False)
    assert outcome.outlived_by == ("sleep",)
    assert not is_running(int(pid_file.read_text()))


def test_a_launch_is_started_again_as_long_as_the_watch_says_so(tmp_path: Path) -> None:
    codes: list[int] = []

    def again(exit_code: int) -> bool:
        codes.append(exit_code)
        return len(codes) < 3

    script = f"echo x >> {tmp_path}/starts; test $(wc -l < {tmp_path}/starts) = 3 || exit 1"
    outcome = _run(tmp_path, script, Watch(progress=lambda: 0, timeout_s=60.0, again=again))
    assert (outcome.exit_code, codes) == (0, [1, 1, 0])


def test_each_launch_has_a_folder_of_its_own_which_is_gone_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        run_to_end(
            [
                "bash",
                "-c",
                "echo $OMPI_MCA_orte_tmpdir_base; touch $OMPI_MCA_orte_tmpdir_base/left",
            ],
            dict(os.environ),
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
            watch=NO_WATCH,
            is_on_this_host=True,
        )
    folders = [Path(line) for line in (tmp_path / "out").read_text().split()]
    assert len(set(folders)) == 2
    assert not any(folder.exists() for folder in folders)


@pytest.mark.slow
def test_a_launcher_that_ignores_being_asked_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hvdprof.launch.processes.marked_processes.GRACE_S", 0.5)
    watch = Watch(progress=lambda: 1, timeout_s=0.5)
    outcome = _run(tmp_path, "trap '' TERM; while true; do sleep 0.1; done", watch)
    assert outcome.exit_code == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_every_process_and_a_second_one_does_not_cut_that_short(
    tmp_path: Path, sign: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hvdprof.launch.processes.marked_processes.GRACE_S", 1.0)
    pid_file = tmp_path / "pid"
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        while not pid_file.exists() or not pid_file.read_text().strip():
            time.sleep(0.05)
        for _ in range(3):
            signal.pthread_kill(main, sign)
            time.sleep(0.1)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(InterruptedRunError, match=sign.name), interruptible():
        _run(
            tmp_path,
            ORPHAN.format(pid=pid_file, then="trap '' TERM; while true; do sleep 0.1; done"),
        )
    thread.join()
    assert not is_running(int(pid_file.read_text()))


def test_a_signal_is_followed_by_a_last_look_at_ranks_that_still_run(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    looks: list[bool] = []

    def look() -> int:
        begun = pid_file.exists() and pid_file.read_text().strip()
        looks.append(bool(begun) and is_running(int(begun)))
        if len(looks) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return 0

    with pytest.raises(InterruptedRunError), interruptible():
        _run(
            tmp_path,
            ORPHAN.format(pid=pid_file, then="sleep 3600"),
            Watch(progress=look, timeout_s=60.0),
        )
    assert len(looks) == 3
    assert looks[-1]
    assert not is_running(int(pid_file.read_text()))


def _signal_when_there(file: Path, sign: signal.Signals) -> threading.Thread:
    """Sends a signal to this process once there is something in a file."""

    def send() -> None:
        while not file.exists() or not file.read_text().strip():
            time.sleep(0.05)
        os.kill(os.getpid(), sign)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_ranks_do_not_outlive_the_terminal(tmp_path: Path) -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    pid_file = tmp_path / "pid"
    try:
        with pytest.raises(InterruptedRunError, match="SIGHUP"), interruptible():
            thread = _signal_when_there(pid_file, signal.SIGHUP)
            _run(tmp_path, ORPHAN.format(pid=pid_file, then="sleep 600"))
    finally:
        signal.signal(signal.SIGHUP, former)
    thread.join()
    assert not is_running(int(pid_file.read_text()))


@pytest.mark.parametrize("block", [interruptible, interruptible_within_others])
def test_nohup_keeps_its_word(block: Callable[[], AbstractContextManager[None]]) -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with block():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)


@pytest.mark.slow
def test_a_signal_while_ranks_are_ended_does_not_leave_them_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hvdprof.launch.processes.marked_processes.GRACE_S", 1.0)
    pid_file, asked = tmp_path / "pid", tmp_path / "asked"
    # It hangs, is asked to end and does not; then the user loses patience too.
    stubborn = f"trap 'echo 1 > {asked}' TERM; while true; do sleep 0.1; done"
    with pytest.raises(InterruptedRunError, match="SIGINT"), interruptible():
        thread = _signal_when_there(asked, signal.SIGINT)
        _run(
            tmp_path,
            ORPHAN.format(pid=pid_file, then=stubborn),
            Watch(progress=lambda: 1, timeout_s=0.6),
        )
    thread.join()
    assert not is_running(int(pid_file.read_text()))


def test_a_disk_error_is_not_reported_as_a_launcher_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"absent/out: No such file or directory"):
        _run(tmp_path / "absent", "exit 0")


def test_former_handlers_are_back_after_an_interruptible_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruptible():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_launcher_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotReadyError, match="no-such-launcher"):
        run_to_end(
            ["no-such-launcher"],
            dict(os.environ),
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
            watch=NO_WATCH,
        )


def test_processes_of_others_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        _run(tmp_path, "exit 0")
        assert other.poll() is None
        other.kill()


@pytest.mark.slow
def test_a_process_that_has_only_just_started_is_found() -> None:
    # Of a hundred some are met before the kernel has given them their environment.
    for number in range(200):
        mark = f"{os.getpid()}-{number}"
        process = subprocess.Popen(["sleep", "60"], env={**os.environ, "A_MARK": mark})
        try:
            assert marked_processes(mark, "A_MARK") == [process.pid]
        finally:
            process.kill()
            process.wait()
