import json
from pathlib import Path

import pytest

from hvdprof.launch.diagnose.explain import explain
from hvdprof.launch.diagnose.failure_evidence import LastSeen, explain_last, worker_ends
from hvdprof.launch.diagnose.printed_errors import MAX_CHARACTERS, MAX_LINES
from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall, StalledRank
from hvdprof.launch.diagnose.watch_state import UnequalBatches
from hvdprof.launch.processes.launch_process import LaunchOutcome
from hvdprof.rundir.failures.launcher_failures import Failure, FailureKind
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import WorkerEnd
from tests.builders.stalls import stall_at_end

LAUNCHERS = Path(__file__).parents[2] / "rundir" / "launcher_failures"
SAMPLES = Path(__file__).parent / "samples"


def _progress(folder: Path, steps_by_rank: dict[int, int]) -> PassProgress:
    paths = PassPaths(folder)
    paths.recorder_folder.mkdir(parents=True)
    for rank, num_steps in steps_by_rank.items():
        lines: list[dict[str, object]] = [{"kind": "segment", "id": "mnist-none-average"}]
        lines += [{"kind": "step", "step": step} for step in range(num_steps)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        paths.recorder_file(rank).write_text(text)
    progress = PassProgress(paths)
    progress.update()
    return progress


def _explained(
    tmp_path: Path,
    stdout: str,
    stderr: str,
    exit_code: int = 1,
    num_steps: dict[int, int] | None = None,
) -> Failure:
    progress = _progress(tmp_path, {0: 10, 1: 10} if num_steps is None else num_steps)
    outcome = LaunchOutcome(exit_code, hung=False, duration_s=3.0)
    return explain(outcome, progress, stdout=stdout, stderr=stderr, timeout_s=300.0)


@pytest.mark.parametrize("launcher", ["mpi", "gloo"])
@pytest.mark.parametrize(
    ("how", "reason", "signal", "evidence"),
    [
        ("kill", "rank 1 was ended by SIGKILL", "SIGKILL", "Kill"),
        ("segv", "rank 1 was ended by SIGSEGV", "SIGSEGV", "libpython"),
        ("raise", "rank 1 raised RuntimeError: boom at step 10", None, "boom at step 10"),
        ("exit", "rank 1 ended without a message, and the others lost their peer", None, ""),
    ],
)
def test_the_rank_that_went_first_is_named(
    tmp_path: Path, launcher: str, how: str, reason: str, signal: str | None, evidence: str
) -> None:
    stdout, stderr = (
        (SAMPLES / f"{launcher}_{how}.{stream}").read_text() for stream in ("out", "err")
    )
    failure = _explained(tmp_path, stdout, stderr)
    assert failure.reason.startswith(reason)
    assert failure.rank == 1
    assert failure.signal == signal
    assert evidence in "\n".join(failure.lines)
    assert len(failure.lines) <= MAX_LINES


@pytest.mark.parametrize(
    ("how", "reason", "signal", "evidence"),
    [
        ("kill", "rank 1 was ended by SIGKILL", "SIGKILL", "Signal 9 (SIGKILL)"),
        ("raise", "rank 1 raised InjectedError: injected at step 10", None, "injected at step 10"),
    ],
)
def test_torchrun_names_the_rank_too(
    tmp_path: Path, how: str, reason: str, signal: str | None, evidence: str
) -> None:
    failure = _explained(tmp_path, "", (SAMPLES / f"torchrun_{how}.err").read_text())
    assert failure.reason.startswith(reason)
    assert (failure.rank, failure.signal) == (1, signal)
    assert evidence in "\n".join(failure.lines)


_BOX = """\
Traceback (most recent call last):
  File "torch/distributed/run.py", line 1032, in <module>
    main()
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
Root Cause (first observed failure):
[0]:
  rank      : 0 (local_rank: 0)
  exitcode  : {code} (pid: 17517)
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""
_UNTAGGED = """\
Traceback (most recent call last):
  File "train.py", line 2, in <module>
    import apex
ModuleNotFoundError: No module named 'apex'
"""


def test_an_error_before_the_ranks_are_named_is_not_that_of_the_agent(tmp_path: Path) -> None:
    agent = (
        "E1127 20:15:52.402000 18309 torch/distributed/elastic/multiprocessing/api.py:1002] "
        "failed (exitcode: 1) local_rank: 1 (pid: 18337) of binary: python\n"
    )
    failure = _explained(tmp_path, "", _UNTAGGED + agent + _BOX.format(code="1"))
    assert "raised ModuleNotFoundError: No module named 'apex'" in failure.reason
    assert failure.lines[-1] == "ModuleNotFoundError: No module named 'apex'"


@pytest.mark.parametrize(("above", "code"), [(_UNTAGGED, "-9"), ("", "1")])
def test_the_box_of_torchrun_is_the_evidence_of_what_printed_nothing(
    tmp_path: Path, above: str, code: str
) -> None:
    failure = _explained(tmp_path, "", above + _BOX.format(code=code))
    assert failure.rank == 0
    assert any("exitcode" in line for line in failure.lines)


@pytest.mark.parametrize(
    ("pids", "reason", "rank"),
    [
        ({0: 7, 1: 10803}, "rank 1 was ended by SIGKILL", 1),
        # Hosts count their processes alike.
        ({0: 10803, 1: 10803}, "the launch was ended by SIGKILL", None),
        ({0: 7, 1: 8}, "the launch was ended by SIGKILL", None),
    ],
)
def test_hydra_names_the_process_alone(
    tmp_path: Path, pids: dict[int, int], reason: str, rank: int | None
) -> None:
    progress = _progress(tmp_path, {0: 10, 1: 10})
    for number, pid in pids.items():
        progress.ranks[number].header = {"pid": pid}
    stdout = (SAMPLES / "hydra_kill.out").read_text()
    outcome = LaunchOutcome(9, hung=False, duration_s=3.0)
    failure = explain(outcome, progress, stdout=stdout, stderr="", timeout_s=300.0)
    assert failure.reason.startswith(reason)
    assert (failure.rank, failure.signal, failure.exit_code) == (rank, "SIGKILL", 9)
    assert "=   PID 10803 RUNNING AT node1" in failure.lines


def test_an_exit_code_under_hydra_is_no_signal(tmp_path: Path) -> None:
    frame = "=   BAD TERMINATION OF ONE\n=   PID 7 RUNNING AT node1\n=   EXIT CODE: 9\n"
    failure = _explained(tmp_path, frame, "", exit_code=9)
    assert failure.reason == "the launch ended with exit code 9 and no message"
    assert failure.signal is None


def test_an_abort_of_gloo_over_different_collectives_says_so(tmp_path: Path) -> None:
    stderr = (
        "[1,0]<stderr>:  what():  [enforce fail at pair.cc:456] 72 vs 4. "
        "Is there a distributed collective mismatch in your code?\n"
        "mpirun noticed that process rank 0 with PID 11103 on node node1 exited on "
        "signal 6 (Aborted).\n"
    )
    failure = _explained(tmp_path, "", stderr, exit_code=134)
    assert failure.reason.startswith("rank 0 was ended by SIGABRT (ranks are in different")
    assert "TORCH_DISTRIBUTED_DEBUG=DETAIL" in failure.reason


def test_open_mpi_5_breaks_its_line(tmp_path: Path) -> None:
    stderr = (
        "prterun noticed that process rank 1 with PID 11103 on node node1 exited on\n"
        "signal 9 (Killed).\n"
    )
    failure = _explained(tmp_path, "", stderr, exit_code=137)
    assert failure.reason.startswith("rank 1 was ended by SIGKILL")
    assert failure.lines == stderr.splitlines()


def test_open_mpi_5_puts_a_space_behind_its_tag(tmp_path: Path) -> None:
    text = (SAMPLES / "mpi_raise.err").read_text().replace("<stderr>:", "<stderr>: ")
    failure = _explained(tmp_path, "", text)
    assert failure.reason == "rank 1 raised RuntimeError: boom at step 10"


def test_the_shell_in_front_of_a_rank_has_not_the_last_word(tmp_path: Path) -> None:
    stderr = "[1]<stderr>:ValueError: no\n[1]<stderr>:Terminated\n"
    assert _explained(tmp_path, "", stderr).lines == ["ValueError: no"]
    printed = "Process 1 exit with status code 143."
    (end,) = worker_ends(printed, "[1]<stderr>:Terminated\n")
    assert end.lines == ["Terminated"]


def test_a_launcher_that_fails_by_itself(tmp_path: Path) -> None:
    stderr = "prterun was unable to find the specified executable\n  Executable: none\n"
    failure = _explained(tmp_path, "", stderr, exit_code=66)
    assert failure.reason == (
        "the launch ended with exit code 66: Executable: none (Open MPI 5 takes the -bind-to of "
        "horovodrun for the program; use --launcher mpirun)"
    )
    assert failure.rank is None
    assert failure.lines == stderr.splitlines()


def test_a_launcher_that_ends_before_its_ranks_is_reported_by_its_first_causal_text(
    tmp_path: Path,
) -> None:
    stderr = (LAUNCHERS / "ompi4_tmpfull.txt").read_text()
    failure = _explained(tmp_path, "", stderr, num_steps={})
    assert failure.reason.startswith(
        "no rank reported in: call to mkdir was unable to create the desired directory: "
    )
    assert "No space left on device (the folder for temporary files is full; " in failure.reason
    assert failure.rank is None


def test_an_exception_of_a_rank_before_its_first_step_names_the_rank(tmp_path: Path) -> None:
    stderr = "[1,1]<stderr>:OSError: [Errno 24] Too many open files: 'a.npz'\n"
    failure = _explained(tmp_path, "", stderr, num_steps={})
    assert failure.rank == 1
    assert failure.reason.startswith("rank 1 raised OSError: [Errno 24] Too many open files")


def test_a_launcher_that_hangs_at_a_limit_is_reported_by_it(tmp_path: Path) -> None:
    stderr = (LAUNCHERS / "ompi4_files_ranks.txt").read_text()
    failure = explain(
        LaunchOutcome(-15, hung=True, duration_s=20.0),
        _progress(tmp_path, {}),
        stdout="",
        stderr=stderr,
        timeout_s=20.0,
    )
    assert failure.reason.startswith("no progress on any rank for 20.0 s; ")
    assert "a limit of this user is reached: open files; raise it: ulimit -n" in failure.reason


def test_a_rank_that_leaves_without_a_word_is_named_and_mpirun_is_not_quoted(
    tmp_path: Path,
) -> None:
    failure = _explained(tmp_path, "", (SAMPLES / "mpi_exit0.err").read_text())
    assert failure.rank == 1
    assert failure.reason.startswith("rank 1 exited without MPI_Finalize, as by os._exit(0)")
    assert "-quiet" not in failure.reason


def test_a_hang_names_the_rank_that_is_behind(tmp_path: Path) -> None:
    failure = explain(
        LaunchOutcome(-15, hung=True, duration_s=40.0),
        _progress(tmp_path, {0: 15, 1: 14}),
        stdout="",
        stderr="",
        timeout_s=30.0,
    )
    assert failure.reason == (
        "no progress on any rank for 30.0 s; rank 0 had done 15 steps; rank 1 had done 14 steps"
    )
    assert failure.rank == 1


TIMED_OUT = (
    "[1,0]<stderr>:Traceback (most recent call last):\n"
    '[1,0]<stderr>:  File "train.py", line 40, in <module>\n'
    "[1,0]<stderr>:horovod.common.exceptions.HorovodInternalError: [gloo/transport/tcp/"
    "unbound_buffer.cc:81] Timed out waiting 30000ms for recv operation to complete\n"
)
RESUMED = (
    "[1,1]<stderr>:horovod.common.exceptions.HorovodInternalError: [gloo/transport/tcp/pair.cc:598]"
    " Connection closed by peer [127.0.0.1]:4242\n"
)


@pytest.mark.parametrize("stderr", [TIMED_OUT, TIMED_OUT + RESUMED])
def test_a_rank_that_a_signal_stopped_is_the_cause_of_its_peers_timeout(
    tmp_path: Path, stderr: str
) -> None:
    outcome = LaunchOutcome(1, hung=False, duration_s=60.0)
    progress = _progress(tmp_path, {0: 10, 1: 10})
    failure = explain(
        outcome,
        progress,
        stdout="",
        stderr=stderr,
        timeout_s=300.0,
        seen=LastSeen(stopped_s={1: 30.4}),
    )
    assert failure.reason.startswith(
        "rank 1 was stopped by a signal for 30.4 s or more, and rank 0 gave up waiting: "
        "horovod.common.exceptions.HorovodInternalError: "
    )
    assert "Timed out waiting 30000ms" in failure.reason
    assert failure.rank == 1
    # A short stop, or one without a peer that fails, explains nothing.
    shortly = explain(
        outcome,
        progress,
        stdout="",
        stderr=stderr,
        timeout_s=300.0,
        seen=LastSeen(stopped_s={1: 3.0}),
    )
    assert "was stopped" not in shortly.reason
    alone = explain(
        outcome,
        progress,
        stdout="",
        stderr=RESUMED,
        timeout_s=300.0,
        seen=LastSeen(stopped_s={1: 30.4}),
    )
    assert "was stopped" not in alone.reason


def test_a_hang_of_all_ranks_at_one_step_names_no_rank(tmp_path: Path) -> None:
    failure = explain(
        LaunchOutcome(-15, hung=True, duration_s=40.0),
        _progress(tmp_path, {0: 15, 1: 15}),
        stdout="",
        stderr="",
        timeout_s=30.0,
    )
    assert failure.rank is None


AGENT = """\
W1124 17:48:01.756000 3918 torch/distributed/elastic/agent/server/api.py:753] Received 15 death \
signal, shutting down workers
W1124 17:48:01.756000 3918 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process \
3946 closing signal SIGTERM
Traceback (most recent call last):
  File "torch/distributed/run.py", line 1032, in <module>
    main()
torch.distributed.elastic.multiprocessing.api.SignalException: Process 3918 got signal: 15
"""


@pytest.mark.parametrize("before", ["", "train.py: warning: slow disk\n"])
def test_the_traceback_of_the_agent_that_hvdprof_ended_explains_no_hang(
    tmp_path: Path, before: str
) -> None:
    failure = explain(
        LaunchOutcome(1, hung=True, duration_s=40.0),
        _progress(tmp_path, {0: 15, 1: 15}),
        stdout="",
        stderr=before + AGENT,
        timeout_s=30.0,
    )
    assert failure.lines == before.splitlines()


def test_a_hang_before_any_recording(tmp_path: Path) -> None:
    failure = explain(
        LaunchOutcome(-15, hung=True, duration_s=40.0),
        _progress(tmp_path, {}),
        stdout="",
        stderr="",
        timeout_s=30.0,
    )
    assert "no rank had begun to record" in failure.reason
    assert failure.lines[-1].startswith("to do: raise --timeout where imports")


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (
            "0: slurmstepd-vm: error: *** STEP 4.0 ON vm CANCELLED AT 2026-11-21T07:23:00 ***\n"
            "srun: error: vm: task 1: Killed\n"
            "srun: error: vm: task 0: Terminated\n",
            "rank 1 was ended by SIGKILL",
        ),
        (
            "srun: error: vm: task 0: Terminated\n"
            "srun: error: vm: task 1: Segmentation fault (core dumped)\n",
            "rank 1 was ended by SIGSEGV",
        ),
        (
            "0: horovod.common.exceptions.HorovodInternalError: Connection closed by peer\n"
            "1: RuntimeError: boom at step 10\n"
            "srun: error: vm: task 1: Exited with exit code 7\n",
            "rank 1 raised RuntimeError: boom at step 10",
        ),
    ],
)
def test_what_srun_says(tmp_path: Path, stderr: str, reason: str) -> None:
    failure = _explained(tmp_path, "", stderr)
    assert failure.reason.startswith(reason)
    assert failure.rank == 1
    assert failure.exit_code in (7, None)


def test_processes_lost_by_an_elastic_launch_are_recorded_with_their_last_lines() -> None:
    stdout = "[0]<stdout>:done\nProcess 1 exit with status code 137.\n"
    stdout += "Process 0 exit with status code 1.\n"
    stderr = "[0]<stderr>:Traceback\n[0]<stderr>:ValueError: no\n[1]<stderr>:Killed\n"

    assert worker_ends(stdout, stderr) == [
        WorkerEnd(rank=1, exit_code=137, lines=["Killed"]),
        WorkerEnd(rank=0, exit_code=1, lines=["Traceback", "ValueError: no"]),
    ]


RAISED = WorkerEnd(rank=1, exit_code=1, lines=["RuntimeError: on purpose"])
KILLED = WorkerEnd(rank=2, exit_code=137, lines=["Killed"])
TERMINATED = WorkerEnd(rank=0, exit_code=143, lines=["Terminated"])
REMOVED = WorkerEnd(rank=3, exit_code=134, lines=["Aborted"])
VICTIM = WorkerEnd(
    rank=0,
    exit_code=1,
    lines=["RuntimeError: Horovod has been shut down", "HorovodInternalError: lost"],
)


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ([KILLED, RAISED], "rank 1 raised RuntimeError: on purpose"),
        ([RAISED, KILLED, TERMINATED], "rank 2 was ended by SIGKILL"),
        ([RAISED, REMOVED, VICTIM], "rank 1 raised RuntimeError: on purpose"),
    ],
)
def test_an_elastic_launch_fails_by_the_last_worker_with_an_error_of_its_own(
    ends: list[WorkerEnd], reason: str
) -> None:
    failure = explain_last(ends)
    assert failure is not None
    assert failure.reason.startswith(reason)


@pytest.mark.parametrize("ends", [[], [TERMINATED, REMOVED], [VICTIM]])
def test_workers_that_only_lost_a_peer_explain_nothing(ends: list[WorkerEnd]) -> None:
    assert explain_last(ends) is None


@pytest.mark.parametrize(("exit_code", "name"), [(-9, "SIGKILL"), (-11, "SIGSEGV")])
def test_a_launcher_that_was_killed_is_reported_with_its_signal(
    tmp_path: Path, exit_code: int, name: str
) -> None:
    failure = _explained(tmp_path, "", "the last words\n", exit_code)
    assert failure.reason.startswith(f"the launcher was ended by {name} (")
    assert (failure.rank, failure.signal, failure.exit_code) == (None, name, exit_code)
    assert failure.lines == ["the last words"]


def test_a_task_that_slurm_could_not_start_is_not_the_one_that_it_killed_for_it(
    tmp_path: Path,
) -> None:
    said = (
        "srun: error: task 0 launch failed: Unspecified error\n"
        "srun: launch/slurm: launch_p_step_launch: StepId=1.4 aborted before step completely "
        "launched.\n"
        "srun: error: n2: task 1: Killed\n"
    )
    failure = _explained(tmp_path, "", said)
    assert failure.reason == "rank 0 could not be started: Unspecified error"
    assert (failure.rank, failure.signal) == (0, None)
    assert failure.lines[0] == "srun: error: task 0 launch failed: Unspecified error"


@pytest.mark.heavy
def test_an_error_that_prints_a_tensor_does_not_fill_the_manifest(tmp_path: Path) -> None:
    failure = _explained(tmp_path, "", f"[1,1]<stderr>:ValueError: {'0.0, ' * 100_000}\n")
    assert failure.reason.startswith("rank 1 raised ValueError: 0.0, 0.0, ")
    assert max(map(len, (failure.reason, *failure.lines))) < MAX_CHARACTERS + 30


USAGE = "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --epoch\n"
UNREACHABLE = """\
At least one pair of MPI processes are unable to reach each other for
MPI communications.

Your MPI job is now going to abort; sorry.
"""


def test_rejected_arguments_are_the_reason(tmp_path: Path) -> None:
    tagged = "".join(f"[1]<stderr>:{line}\n" for line in USAGE.splitlines())
    failure = _explained(tmp_path, "", tagged + "Process 1 exit with status code 2.\n")
    assert failure.reason == (
        "rank 1 ended with exit code 2: train.py: error: unrecognized arguments: --epoch (the "
        "script rejects its arguments; correct them; the script lists its options with --help)"
    )
    assert _explained(tmp_path / "untagged", "", USAGE, exit_code=2).reason.endswith("--help)")


def test_hosts_without_a_common_network_are_the_cause(tmp_path: Path) -> None:
    failure = _explained(tmp_path, "", UNREACHABLE, exit_code=13)
    assert "no network that connects all hosts" in failure.reason
    assert "OMPI_MCA_btl_tcp_if_include" in failure.reason


@pytest.mark.parametrize(("code", "who"), [(137, "a process of the launch"), (-9, "the launcher")])
def test_a_launch_that_passes_on_a_kill_names_it(tmp_path: Path, code: int, who: str) -> None:
    failure = _explained(tmp_path, "", "starting\n", exit_code=code)
    assert failure.reason.startswith(f"{who} was ended by SIGKILL (killed from outside")
    assert failure.signal == "SIGKILL"


def test_a_rank_that_only_slurm_terminated_is_named_without_a_better_one(tmp_path: Path) -> None:
    said = "srun: error: vm: task 1: Terminated\n"
    failure = _explained(tmp_path, "", said, exit_code=143)
    assert (failure.rank, failure.exit_code) == (1, 143)


def _timed_out(tmp_path: Path, seen: LastSeen) -> Failure:
    return explain(
        LaunchOutcome(-9, hung=True, duration_s=400.0),
        _progress(tmp_path, {0: 15, 1: 15}),
        stdout="",
        stderr="",
        timeout_s=30.0,
        seen=seen,
    )


def test_a_hang_is_explained_by_the_stall_in_which_it_was_ended(tmp_path):
    rank = StalledRank(
        rank=1, state="runs", step=15, phase="data", tensors=["a"], stack=["/job/t.py:3 load"]
    )
    stall = stall_at_end(rank, 29.0)
    failure = _timed_out(tmp_path, LastSeen(stall=stall))
    assert failure.reason == f"no progress on any rank for 30.0 s; {stall.sentence()}"
    assert (failure.kind, failure.rank) == (FailureKind.HUNG, 1)
    assert failure.lines[1:] == ["stack of rank 1, innermost first:", "  /job/t.py:3 load"]


def test_ranks_that_hang_without_a_wait_are_named_with_their_places(tmp_path):
    blocked = [
        StalledRank(rank=rank, state="runs", step=15, phase="data", tensors=[], stack=stack)
        for rank, stack in enumerate((["/job/t.py:3 load"], ["/job/t.py:9 read"]))
    ]
    failure = _timed_out(tmp_path, LastSeen(blocked=blocked))
    assert failure.reason == (
        "no progress on any rank for 30.0 s; rank 0 had done 15 steps, in data of step 15 at "
        "t.py:3; rank 1 had done 15 steps, in data of step 15 at t.py:9"
    )
    assert failure.lines == ["stack of rank 0, innermost first:", "  /job/t.py:3 load"]


LOST = (
    "[rank0]: Traceback (most recent call last):\n"
    "[rank0]: RuntimeError: [pair.cc:536] Connection closed by peer [127.0.0.1]:27651\n"
)


def test_a_rank_that_lost_a_peer_with_fewer_batches_says_so(tmp_path):
    unequal = UnequalBatches(ended=[1], num_steps=39, waiting=[0], step=40)
    given = {"stdout": "", "timeout_s": 300.0, "seen": LastSeen(unequal=unequal)}
    outcome, progress = (
        LaunchOutcome(1, hung=False, duration_s=9.0),
        _progress(tmp_path, {0: 38, 1: 38}),
    )
    failure = explain(outcome, progress, stderr=LOST, **given)
    assert failure.reason == (
        "rank 0 lost a peer; unequal numbers of batches per rank: rank 1 had ended the training "
        "loop after 39 steps, rank 0 was in step 40"
    )
    assert (failure.kind, failure.rank) == (FailureKind.UNEQUAL, 1)
    assert failure.reason == f"rank 0 lost a peer; {failure.detail}"
    assert "Connection closed by peer" in failure.lines[-2]
    assert failure.lines[-1].startswith("to do: give every rank as many batches")
    # A rank that raises something of its own is the cause.
    other = LOST.replace("Connection closed by peer", "label 11 out of range")
    assert "batches" not in explain(outcome, progress, stderr=other, **given).reason


GLOO_TIMEOUT = "Timed out waiting 10000ms for recv operation to complete"
NCCL_TIMEOUT = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, "
    "Timeout(ms)=600000) ran for 600010 milliseconds before timing out"
)


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (
            "[rank0]: Traceback (most recent call last):\n"
            f"[rank0]: RuntimeError: [unbound_buffer.cc:78] {GLOO_TIMEOUT}\n",
            GLOO_TIMEOUT,
        ),
        (
            f"[rank0]:[E1125 10:00:00.5 ProcessGroupNCCL.cpp:632] [Rank 0] {NCCL_TIMEOUT}.\n",
            NCCL_TIMEOUT,
        ),
    ],
)
def test_a_collective_that_timed_out_quotes_the_stack_of_the_rank_that_hangs(
    tmp_path, printed, message
):
    late = StalledRank(
        rank=1, state="runs", step=15, phase="data", tensors=[], stack=["/job/t.py:3 load"]
    )
    stall = stall_at_end(late, 9.0)
    outcome, progress = (
        LaunchOutcome(1, hung=False, duration_s=9.0),
        _progress(tmp_path, {0: 15, 1: 15}),
    )

    def explained(stderr: str, seen: LastSeen) -> Failure:
        return explain(outcome, progress, stdout="", stderr=stderr, timeout_s=300.0, seen=seen)

    failure = explained(printed, LastSeen(stall=stall))
    assert failure.reason == f"rank 0 gave up waiting: {message}; {stall.sentence()}"
    assert (failure.kind, failure.rank) == (FailureKind.STALLED, 1)
    assert failure.lines[-1] == "  /job/t.py:3 load"
    assert "gave up" not in explained(printed, LastSeen()).reason
    # What a rank raises while others wait for it is the cause.
    own = "[rank1]: ValueError: label 11 out of range\n"
    assert explained(own, LastSeen(stall=stall)).reason.startswith("rank 1 raised ValueError")


def test_a_rank_that_aborts_in_a_stall_quotes_the_stack(tmp_path):
    late = StalledRank(rank=1, state="runs", step=15, phase="", tensors=[], stack=["/t.py:3 load"])
    stall = Stall(
        number=0,
        segment="main",
        step=15,
        time_ns=0,
        waited_s=600.0,
        waiting=[0],
        late=[late],
    )
    failure = explain(
        LaunchOutcome(1, hung=False, duration_s=9.0),
        _progress(tmp_path, {0: 15, 1: 15}),
        stdout="",
        stderr="Process name: 0\nExit code: 134\n",
        timeout_s=300.0,
        seen=LastSeen(stall=stall),
    )
    assert failure.reason.startswith("rank 0 gave up waiting: it was ended by SIGABRT; stall at")
    assert (failure.rank, failure.exit_code) == (1, 134)
