# ruff: noqa: E501  (lines of logs are as long as they are)
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.ingest.logs.incidents import Incidents
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.printed import read_part


@pytest.mark.parametrize(
    ("text", "rank", "code", "signal"),
    [
        ("mpirun noticed that process rank 1 with PID 9 on node a exited on signal 9 (K).", 1, None, 9),
        ("prterun noticed that process rank 3 with PID 9 on node a exited on\nsignal 6 (A).", 3, None, 6),
        ("  Process name: [[34817,1],0]\n  Exit code:    1", 0, 1, None),
        ("   Process name: [prterun-a-1@1,15] Exit code:    3", 15, 3, None),
        ("Process name: 1\nExit code: 137", 1, 137, None),
        ("Process 2 exit with status code 7.", 2, 7, None),
        ("srun: error: node7: task 5: Exited with exit code 2", 5, 2, None),
        ("x1: rank 4 died from signal 6 and dumped core", 4, None, 6),
        ("x1: rank 4 exited with code 1", 4, 1, None),
        ("E1211 api.py:833] failed (exitcode: -11) local_rank: 1 (pid: 68) of binary: /p", None, None, 11),
        ("Root Cause (first observed failure):\n[0]:\n  time : x\n  rank      : 2 (local_rank: 0)\n  exitcode  : 1 (pid: 69)", 2, 1, None),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL", 3, None, 9),
        ("=   BAD TERMINATION OF ONE\n=   PID 7 RUNNING AT a\n=   EXIT CODE: 139", None, 139, None),
    ],
)  # fmt: skip
def test_how_launchers_report_an_end(
    tmp_path: Path, text: str, rank: int | None, code: int | None, signal: int | None
) -> None:
    tables, _ = read_part(Incidents, f"before\n{text}\nafter\n", tmp_path)
    (row,) = tables["incidents"].to_dict("records")
    assert row["kind"] == "process-end"
    found = [row["failed_rank"], row["exit_code"], row["signal"]]
    assert [None if pd.isna(value) else value for value in found] == [rank, code, signal]
    assert row["line"] == 2


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("RuntimeError: Horovod has been shut down. This was caused", "shutdown"),
        ("horovod.common.exceptions.HorovodInternalError: x", "internal-error"),
        ("[0]<stderr>:ValueError: bad", "exception"),
        ("[2026-11-20 21:44:13.100439: E a/operations.cc:697] [0]: Horovod background loop uncaught exception: x", "background-loop"),
        ("[2026-11-20 21:44:13.100439: W a/response_cache.cc:153] A response has been evicted from cache which", "cache-eviction"),
        ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS is less than HOROVOD_STALL_CHECK_TIME_SECONDS, will", "stall-setting"),
        ("Error opening the Horovod Timeline file /x, will not write a timeline.", "timeline-file"),
        ("node: Test NCCL failure common.cu:1012 'unhandled'", "nccl-tests"),
        ("At least one pair of MPI processes are unable to reach each other for", "mpi"),
        ("[1]<stderr>:train.py: error: unrecognized arguments: --epoch", "usage"),
        ("train.py: error: the following arguments are required: --data", "usage"),
        ("run.sh: line 3: 12345 Killed                  python train.py", "out-of-memory"),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0", "out-of-memory"),
        ("Out of memory: Killed process 4711 (python) total-vm:1kB", "out-of-memory"),
        ("command terminated with exit code 137", "out-of-memory"),
        ("[rank3]: RuntimeError: NCCL Error 2: unhandled system error", "nccl-error"),
        ("NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:784, invalid usage", "nccl-error"),
        ("UserWarning: Adasum reduction does not currently support GPU reduction using MPI. Tensors", "adasum"),
        ("[/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 30000ms for recv operation", "network-timeout"),
        ("[E socket.cpp:957] [c10d] The client socket has timed out after 60s while trying to connect", "network-timeout"),
        ("ssh: connect to host node7 port 22: Connection timed out", "network-timeout"),
        ("[a: E a/gloo/http_store.cc:96] HTTP GET request failed too many times, aborting.", "rendezvous"),
        ("  what():  [gloo/http_store.cc:54] Wait timeout after 30 seconds for key(s): 1. You", "rendezvous"),
        ("Fatal Python error: Segmentation fault", "crash"),
        ("[node1:4711] *** Process received signal ***", "crash"),
        ("run.sh: line 3: 12345 Segmentation fault      (core dumped) python train.py", "crash"),
        ("slurmstepd: error: *** JOB 17 ON node3 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***", "cancelled"),
        ("Primary job  terminated normally, but 1 process returned", "job-end"),
    ],
)  # fmt: skip
def test_kinds_of_trouble(tmp_path: Path, text: str, kind: str) -> None:
    tables, _ = read_part(Incidents, text + "\n", tmp_path)
    assert list(tables["incidents"]["kind"]) == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "    raise HorovodInternalError(e)",
        "all is well",
        "Killed 3 stale workers before the start",
        "exited the loop after 1370 steps",
        "validation error: argument of the best epoch 3",
        "Process 3 started",
        "Process name: 1\nhello",
        "wandb: Network error (ConnectTimeout), entering retry loop.",
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'Connection timed out'",
        "rank      : 2 (local_rank: 0)",
        "the time-out of 30 s was not reached",
    ],
)
def test_what_is_no_trouble(tmp_path: Path, text: str) -> None:
    tables, _ = read_part(Incidents, text + "\n", tmp_path)
    assert len(tables["incidents"]) == 0


def test_times_keep_their_last_digit(tmp_path: Path) -> None:
    text = "a\nValueError: x\n[2026-11-20 21:44:13.    39: E a.cc:1] [0]: Horovod has been shut down.\n"
    tables, _ = read_part(Incidents, text, tmp_path)
    first, second = tables["incidents"]["time_ns"]
    assert pd.isna(first)
    assert second % 1_000_000_000 == 39_000


@needs_corpus
@pytest.mark.parametrize(
    ("name", "rank", "code"),
    [("cipherdoc_10epochs.out", 1, 2), ("cipherdoc_mpirun_4gpu_noprefix.out", 0, 1)],
)
def test_the_aborts_of_the_corpus(tmp_path: Path, name: str, rank: int, code: int) -> None:
    content = (CORPUS / "horovod_logs" / name).read_bytes()
    tables, _ = read_part(Incidents, content, tmp_path)
    ends = tables["incidents"].query("kind == 'process-end'")
    assert list(ends["failed_rank"]) == [rank]
    assert list(ends["exit_code"]) == [code]


def entry(number: int, rank: int, code: str, time: str) -> str:
    return (
        f"[{number}]:\n  time      : {time}\n  host      : nodeA\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 520)\n"
        "  error_file: <N/A>\n  traceback : Signal received\n"
    )


REPORT = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    f"{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\nFailures:\n"
    f"{entry(1, 3, '1', '2026-11-02_08:15:10')}{entry(2, 0, '-9', '2026-11-02_08:15:41')}{'-' * 60}\n"
    "Root Cause (first observed failure):\n"
)


@pytest.mark.parametrize("tag", ["", "[default0]:"])
def test_every_rank_of_a_report_of_torchrun(tmp_path: Path, tag: str) -> None:
    text = f"{REPORT}{entry(0, 1, '1', '2026-11-02_08:15:10')}{'=' * 60}\n[1]:\n  rank : 7 of 9\n"
    text = "".join(f"{tag}{line}\n" for line in text.splitlines())
    rows = read_part(Incidents, text, tmp_path)[0]["incidents"]
    ends = rows[rows["kind"].isin(["process-end", "later-end"])]
    columns = ["kind", "failed_rank", "exit_code", "signal", "host", "failed_at"]
    assert ends[columns].fillna(-1).to_numpy().tolist() == [
        ["later-end", 3, 1, -1, "nodeA", "2026-11-02_08:15:10"],
        ["later-end", 0, -1, 9, "nodeA", "2026-11-02_08:15:41"],
        ["process-end", 1, 1, -1, "nodeA", "2026-11-02_08:15:10"],
    ]


def test_other_lines_behind_the_word_failures_stay_incidents(tmp_path: Path) -> None:
    text = "Failures:\nTraceback (most recent call last):\nValueError: bad batch\n"
    rows = read_part(Incidents, text, tmp_path)[0]["incidents"]
    assert rows["message"].tolist() == ["ValueError: bad batch"]


@pytest.mark.heavy
@pytest.mark.parametrize("is_cut", [False, True])
def test_the_rank_that_failed_first_is_the_verdict(tmp_path: Path, is_cut: bool) -> None:
    last = entry(0, 1, "1", "2026-11-02_08:15:10")
    path = tmp_path / "job.out"
    path.write_text(REPORT + (last[: last.index("  exitcode")] if is_cut else last))
    (page,) = analyze_files(load_run(path)).files
    how = "failed" if is_cut else "ended with exit code 1"
    assert f": rank 1 {how}, first of all ranks (nodeA, 2026-11-02_08:15:10)." in page.verdict
    (later,) = [fact.value for fact in page.facts if fact.name == "later_ends"]
    assert later == "rank 3 with exit code 1\nrank 0 by signal 9"


def verdict_of(folder: Path, text: str) -> str:
    path = folder / "job.out"
    path.write_text(text)
    (page,) = analyze_files(load_run(path)).files
    return page.verdict


def test_a_report_that_is_cut_before_its_root_cause_names_no_first_rank(tmp_path: Path) -> None:
    failed = entry(1, 1, "1", "2026-11-02_08:15:41") + entry(2, 2, "1", "2026-11-02_08:15:41")
    text = (
        f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\nFailures:\n{failed}"
    )
    found = verdict_of(tmp_path, text)
    assert "ranks 1 and 2 failed; which rank failed first is not in this file" in found
    assert "which rank is not" not in found


def test_of_two_reports_the_earlier_failure_was_first(tmp_path: Path) -> None:
    root = "Root Cause (first observed failure):\n"
    late, early = entry(0, 0, "1", "2026-11-02_08:15:52"), entry(0, 4, "1", "2026-11-02_08:15:01")
    assert "rank 4 ended with exit code 1, first" in verdict_of(
        tmp_path, root + late + root + early
    )


def test_the_agent_names_a_rank_by_its_number_on_its_host(tmp_path: Path) -> None:
    text = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 2 (pid: 5939) of binary: /usr/bin/python3\n"
    assert "local rank 2 (pid 5939) ended with exit code 1" in verdict_of(tmp_path, text)
    assert "Exception: bad value" in verdict_of(tmp_path, f"Exception: bad value\n{text}")
