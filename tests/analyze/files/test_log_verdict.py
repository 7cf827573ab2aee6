import math

import pytest

from hvdprof.analyze.files.log_facts import allreduce_bench_facts, nccl_run_facts
from hvdprof.analyze.files.log_verdict import (
    allreduce_bench_verdict,
    log_verdict,
    nccl_tests_verdict,
)
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.log_tables import INCIDENTS, STALLS
from hvdprof.model.tables.printed_tables import ALLREDUCE_BENCH, NCCL_TEST_RUNS, NCCL_TESTS
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import finding

NO_FINDINGS, NO_STALLS = FINDINGS.frame([]), STALLS.frame([])
NO_INCIDENTS = INCIDENTS.frame([])
FIX = "peer access between GPUs disabled; fix: unset NCCL_P2P_DISABLE."


@pytest.mark.parametrize(
    ("severities", "sentence"),
    [
        (["warning"], f"Warning: {FIX}"),
        (["error", "warning", "warning"], f"1 error and 2 warnings, first: {FIX}"),
        (["note"], ""),
        ([], ""),
    ],
)
def test_the_worst_finding_is_named_with_its_fix(severities, sentence):
    rows = FINDINGS.frame([finding(severity=severity) for severity in severities])
    found = log_verdict(rows, NO_STALLS, NO_INCIDENTS)
    assert found.sentence == sentence
    assert found.headline == sentence.replace("; fix: unset NCCL_P2P_DISABLE", "")


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("missing", "Stall: rank 1 did not submit 2 tensors for at least 60.0 s."),
        ("ready", "Stall: rank 0 did not submit 2 tensors for at least 60.0 s."),
    ],
)
def test_stalls_name_the_ranks_that_did_not_submit(state, sentence):
    rows = [{"stalled_rank": 1, "tensor": name, "state": state, "waited_s": 60.0} for name in "ab"]
    assert log_verdict(NO_FINDINGS, declared_rows(STALLS, *rows), NO_INCIDENTS).sentence == sentence


def incident(kind, message="", *, line=7, **values):
    unknown = dict.fromkeys(("rank", "failed_rank", "exit_code", "signal"))
    return {**unknown, "kind": kind, "message": message, "line": line, **values}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [incident("exception", "ValueError: bad", rank=1), incident("process-end", line=9)],
            "Failure in line 7: rank 1: ValueError: bad.",
        ),
        (
            [incident("process-end", failed_rank=3, exit_code=2)],
            "Failure in line 7: rank 3 ended with exit code 2.",
        ),
        (
            [
                incident("exception", "ConnectionError: gone"),
                incident("process-end", line=9, failed_rank=1, exit_code=137),
            ],
            "Failure in line 9: rank 1 was ended by SIGKILL; cause: killed from outside, often by "
            "the kernel when memory runs out; fix: see dmesg; lower the batch size or the ranks "
            "per host.",
        ),
        (
            [
                incident("rendezvous", "Wait timeout after 30 seconds for key(s): 1", rank=0),
                incident("process-end", line=9, failed_rank=0, exit_code=134),
            ],
            "Failure in line 7: rank 0: Wait timeout after 30 seconds for key(s): 1; cause: "
            "another rank did not join within 30 s; fix: see its output; ",
        ),
        (
            [
                incident("exception", "ValueError: bad", rank=1),
                incident("rendezvous", "HTTP GET request failed too many times", line=8, rank=0),
            ],
            "Failure in line 7: rank 1: ValueError: bad.",
        ),
        ([incident("process-end", signal=11)], "Failure in line 7: a rank was ended by SIGSEGV; "),
        ([incident("internal-error", "HorovodInternalError: x")], ""),
        ([incident("mpi", "x" * 500)], f"Failure in line 7: {'x' * 119}\N{HORIZONTAL ELLIPSIS}."),
    ],
)
def test_a_failure_is_named_with_its_line_and_cause(rows, sentence):
    incidents = declared_rows(INCIDENTS, *rows)
    said = log_verdict(NO_FINDINGS, NO_STALLS, incidents).sentence
    assert said.startswith(sentence)
    assert bool(said) == bool(sentence)


def test_a_failure_after_a_stall_leaves_the_stall_first():
    stall = {"stalled_rank": 1, "tensor": "a", "state": "missing", "waited_s": 60.0, "line": 5}
    stalls = declared_rows(STALLS, stall)
    for line, opening in ((4, "Failure in line 4"), (6, "Stall: ")):
        incidents = declared_rows(INCIDENTS, incident("exception", "ValueError: x", line=line))
        assert log_verdict(NO_FINDINGS, stalls, incidents).sentence.startswith(opening)


def error(line):
    phrase, fix = "collective timeout (ALLREDUCE on all 2 ranks)", "check the network"
    row = finding(severity="error", phrase=phrase, fix=fix) | {"line": line, "file": "f"}
    return FINDINGS.frame([row])


@pytest.mark.parametrize(
    ("kind", "line", "opening"),
    [
        ("exception", 3, "Failure in line 3: ValueError: x. Behind it: collective timeout ("),
        ("exception", 30, "Error: collective timeout (ALLREDUCE on all 2 ranks); fix: check the"),
        ("process-end", 3, "Error: collective timeout"),
        ("adasum", 3, "Error: collective timeout"),
    ],
)
def test_a_failure_before_an_error_is_its_cause(kind, line, opening):
    incidents = declared_rows(INCIDENTS, incident(kind, "ValueError: x", line=line))
    assert log_verdict(error(20), NO_STALLS, incidents).sentence.startswith(opening)


def test_a_failure_counts_more_than_a_warning():
    warned = FINDINGS.frame([finding(severity="warning")])
    incidents = declared_rows(INCIDENTS, incident("exception", "ValueError: x"))
    assert log_verdict(warned, NO_STALLS, incidents).sentence == "Failure in line 7: ValueError: x."


def stalled(*rows, state="missing", cut=False):
    return declared_rows(
        STALLS,
        *(
            {"stalled_rank": rank, "tensor": tensor, "state": state, "waited_s": 60.0, "cut": cut}
            for rank, tensor in rows
        ),
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # Ranks 1 and 2 have each submitted what the other lacks.
        (
            stalled((0, "a"), (1, "a"), (0, "b"), (2, "b")),
            "Stall of at least 60.0 s: ranks submitted different tensors (rank 0 not a and 1 more, "
            "rank 1 not a, rank 2 not b).",
        ),
        (
            stalled(*((rank, "bcast.x") for rank in range(3)), (3, "grad.a"), (3, "grad.b")),
            "Stall of at least 60.0 s: ranks submitted different tensors (ranks 0-2 not bcast.x, "
            "rank 3 not grad.a and 1 more).",
        ),
        (
            stalled((0, "a"), (1, "a"), (0, "b")),
            "Stall: ranks 0 and 1 did not submit 2 tensors for at least 60.0 s.",
        ),
        (
            stalled((1, "a"), (2, "b"), cut=True),
            "Stall: ranks 1 and 2 did not submit at least 2 tensors for at least 60.0 s.",
        ),
        (
            stalled((1, "a"), (2, "a"), (4, "a"), state="ready"),
            "Stall: ranks 0 and 3 did not submit 1 tensor for at least 60.0 s.",
        ),
        (
            stalled((0, "a"), (1, "a"), state="ready"),
            "Stall: 1 tensor stalled for at least 60.0 s.",
        ),
    ],
)
def test_whom_a_stall_waits_for(rows, said):
    assert log_verdict(NO_FINDINGS, rows, NO_INCIDENTS).sentence == said


def nccl_rows(*bandwidths, **values):
    return declared_rows(
        NCCL_TESTS,
        *(
            {"run": 0, "size_bytes": 2**place * 10**6, "busbw_gb_s": float(value), **values}
            for place, value in enumerate(bandwidths)
        ),
    )


RUN = {
    "run": 0,
    "line": 3,
    "operation": "all_reduce",
    "np": 16,
    "num_sizes": 3,
    "num_wrong": 0,
    "avg_busbw_gb_s": 50.0,
    "peak_busbw_gb_s": 101.0,
    "peak_size_bytes": 4_000_000,
    "failed": False,
}


def nccl_run(peak_gb_s, size_bytes, **values):
    peak = {"peak_busbw_gb_s": float(peak_gb_s), "peak_size_bytes": size_bytes}
    return declared_rows(NCCL_TEST_RUNS, {**RUN, **peak, **values})


@pytest.mark.parametrize(
    ("bandwidths", "peak", "sentence", "caveat"),
    [
        ((10, 100, 101), (101, 4_000_000), "101 GB/s at 4.00 MB.", ""),
        ((10, 100, 99), (100, 2_000_000), "100 GB/s at 2.00 MB.", ""),
        ((10, 50, 100), (100, 4_000_000), "100 GB/s at 4.00 MB.", "still rises at the largest"),
    ],
)
def test_the_peak_of_nccl_tests_and_whether_it_still_rises(bandwidths, peak, sentence, caveat):
    verdict = nccl_tests_verdict(nccl_run(*peak), nccl_rows(*bandwidths))
    assert verdict.sentence == f"Peak bus bandwidth of all_reduce on 16 ranks: {sentence}"
    assert caveat in verdict.caveat
    assert bool(caveat) == bool(verdict.caveat)


def test_a_table_without_its_end_asks_for_the_whole_output():
    cut = nccl_run(100, 4_000_000, avg_busbw_gb_s=math.nan)
    caveat = nccl_tests_verdict(cut, nccl_rows(10, 50, 100)).caveat
    assert "may be cut" in caveat and "-e" not in caveat


def test_what_is_wrong_with_nccl_tests_comes_first():
    rows = nccl_rows(10, 20)
    wrong = nccl_run(20, 2_000_000, num_wrong=6)
    assert nccl_tests_verdict(wrong, rows).sentence.startswith("Error: 6 wrong elements; fix: ")
    second = {**RUN, "run": 1, "line": 40}
    failed = declared_rows(NCCL_TEST_RUNS, RUN, {**second, "failed": True})
    assert nccl_tests_verdict(failed, rows).sentence == (
        "Error: 1 of 2 runs failed, first the run that begins in line 40."
    )
    one_wrong = declared_rows(NCCL_TEST_RUNS, RUN, {**second, "num_wrong": 1})
    assert nccl_tests_verdict(one_wrong, rows).sentence.startswith(
        "Error: 1 wrong element in the run that begins in line 40; fix: "
    )
    nothing = nccl_run(math.nan, None, num_sizes=0)
    assert nccl_tests_verdict(nothing, NCCL_TESTS.frame([])).sentence == ""


def test_the_best_of_several_runs_is_named_with_its_line():
    second = {**RUN, "run": 1, "line": 40, "operation": "broadcast", "np": 8}
    runs = declared_rows(NCCL_TEST_RUNS, RUN, {**second, "peak_busbw_gb_s": 7.0})
    assert nccl_tests_verdict(runs, nccl_rows(10, 20)).sentence == (
        "Best of 2 runs (line 3): peak bus bandwidth of all_reduce on 16 ranks: 101 GB/s at "
        "4.00 MB."
    )


def test_facts_of_several_runs_are_never_mixed():
    broken = {**RUN, "run": 1, "line": 40, "num_sizes": 0, "failed": True}
    runs = declared_rows(NCCL_TEST_RUNS, RUN, {**broken, "peak_busbw_gb_s": math.nan})
    assert [(fact.label, fact.value) for fact in nccl_run_facts(runs)] == [
        ("runs of nccl-tests", 2),
        (
            "run",
            "1: all_reduce, 16 ranks, peak 101 GB/s at 4.00 MB, average 50.0 GB/s, line 3\n"
            "2: all_reduce, 16 ranks, failed, average 50.0 GB/s, line 40",
        ),
    ]
    facts = {fact.name: fact.value for fact in nccl_run_facts(runs.iloc[:1])}
    assert (facts["peak_busbw_gb_s"], facts["num_ranks"], facts["failed"]) == (101.0, 16, "no")


def test_the_peak_of_all_reduce_bench():
    row = {"np": 8, "size_bytes": 4_000_000, "busbw_gb_s": 12.5, "line": 5}
    rows = declared_rows(ALLREDUCE_BENCH, row, {**row, "busbw_gb_s": 9.0})
    peak = "peak bus bandwidth of all_reduce on 8 ranks: 12.5 GB/s at 4.00 MB."
    assert allreduce_bench_verdict(rows).sentence == f"P{peak[1:]}"
    two = declared_rows(ALLREDUCE_BENCH, row, {**row, "run": 1, "busbw_gb_s": 9.0, "line": 9})
    assert allreduce_bench_verdict(two).sentence == f"Best of 2 tables (line 5): {peak}"
    assert [fact.label for fact in allreduce_bench_facts(two)] == ["payloads measured", "table"]
    assert allreduce_bench_verdict(ALLREDUCE_BENCH.frame([])).sentence == ""


def test_a_launcher_that_names_no_rank_is_not_quoted_in_half():
    message = "Primary job  terminated normally, but 1 process returned"
    row = {"line": 4, "kind": "job-end", "message": message}
    sentence = log_verdict(NO_FINDINGS, NO_STALLS, declared_rows(INCIDENTS, row)).sentence
    assert sentence == (
        "Failure in line 4: a process ended with a non-zero exit code; which rank is not in this "
        "file."
    )


def test_a_stall_of_unknown_length_states_none():
    rows = declared_rows(
        STALLS, {"state": "missing", "stalled_rank": 6, "tensor": "a", "waited_s": float("nan")}
    )
    assert log_verdict(NO_FINDINGS, rows, NO_INCIDENTS).sentence == (
        "Stall: rank 6 did not submit 1 tensor."
    )
    cut = rows.assign(cut=True, waited_s=60.0)
    assert log_verdict(NO_FINDINGS, cut, NO_INCIDENTS).sentence == (
        "Stall: rank 6 did not submit at least 1 tensor for at least 60.0 s."
    )
