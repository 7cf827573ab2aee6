import pytest

from hvdprof.rundir.launcher_exits import ProcessExit, process_exits


@pytest.mark.parametrize(
    ("text", "rank", "code", "signal"),
    [
        ("process rank 1 with PID 9 on node a exited on signal 9 (Killed).", 1, None, 9),
        ("process rank 3 with PID 9 on node a exited on\nsignal 6 (Aborted).", 3, None, 6),
        ("  Process name: [[34817,1],0]\n  Exit code:    1", 0, 1, None),
        ("   Process name: [prterun-a-1@1,15] Exit code:    3", 15, 3, None),
        ("Process name: 1\nExit code: 137", 1, 137, None),
        ("Process 2 exit with status code 7.", 2, 7, None),
        ("srun: error: node7: task 5: Exited with exit code 2", 5, 2, None),
        ("srun: error: node7: task 5: Killed", 5, None, 9),
        ("srun: error: n: task 1: Floating point exception (core dumped)", 1, None, 8),
        (
            "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n"
            "  exitcode  : -9 (pid: 7)",
            1,
            None,
            9,
        ),
    ],
)
def test_the_end_of_a_process_by_each_launcher(
    text: str, rank: int, code: int | None, signal: int | None
) -> None:
    (ended,) = process_exits(f"before\n{text}\nafter\n")
    assert ended == ProcessExit(rank, None, code, signal, "")


def test_hydra_names_the_process_and_its_signal() -> None:
    frame = "=   BAD TERMINATION OF ONE\n=   PID 7 RUNNING AT a\n=   EXIT CODE: 9\n"
    assert list(process_exits(frame)) == [ProcessExit(None, 7, 9, None, "")]
    (ended,) = process_exits(frame + "YOUR APPLICATION: EXIT STRING: Killed (signal 9)\n")
    assert (ended.pid, ended.signal) == (7, 9)


def test_a_task_that_slurm_could_not_start_comes_with_the_reason() -> None:
    (ended,) = process_exits("srun: error: task 0 launch failed: Unspecified error\n")
    assert ended == ProcessExit(0, None, None, None, "Unspecified error")


@pytest.mark.parametrize("text", ["", "Process 3 started", "srun: error: vm: task 1: Odd words"])
def test_other_text_holds_no_end(text: str) -> None:
    assert list(process_exits(text)) == []


def test_a_damaged_number_is_left_out() -> None:
    (ended,) = process_exits("Process 99999999999 exit with status code 1")
    assert (ended.rank, ended.exit_code) == (None, 1)
