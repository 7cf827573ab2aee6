import pytest

from hvdprof.analyze.findings.log_rules.stall_rule import STALLED
from hvdprof.api import analyze_files, load_run

OPENING = (
    "[2026-11-02 08:15:10.123456: W horovod/common/stall_inspector.cc:107] One or more tensors "
    "were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for "
    "remainder of ranks for more than 60 seconds. \n"
)


def finding(tmp_path, text):
    path = tmp_path / "job.log"
    path.write_text(text, encoding="utf-8")
    analysis = analyze_files(load_run(path))
    rows = analysis.derived.get("findings")
    return None if rows is None else rows[rows["id"] == STALLED].iloc[0].to_dict()


def test_stall_warnings_alone_say_where_to_look(tmp_path):
    found = finding(
        tmp_path, f"{OPENING}Missing ranks:\n2: [a.weight, a.bias ...]\n3: [a.weight]\n"
    )
    assert (found["severity"], found["subject"], found["line"]) == ("warning", "ranks 2 and 3", 3)
    assert "Ranks have waited since 08:14:10 or earlier" in found["evidence"]
    assert "dump the stacks of ranks 2 and 3" in found["action"]
    assert found["command"] == "py-spy dump --pid PID"


def test_a_job_that_was_shut_down_has_no_stacks_left(tmp_path):
    found = finding(tmp_path, f"{OPENING}Missing ranks:\n1!: [a.weight]\n")
    assert (found["severity"], found["command"]) == ("error", "")
    assert found["action"].startswith("Read the output of rank 1 first, from 08:14:10 on.")


def test_ranks_in_different_calls_are_to_be_compared(tmp_path):
    found = finding(tmp_path, f"{OPENING}Missing ranks:\n0: [broadcast.a]\n1: [allreduce.b]\n")
    assert "They wait in different calls" in found["action"]
    assert "exception" not in found["action"]


@pytest.mark.parametrize("end", ["", "Missing ranks:\n"])
def test_warnings_that_name_no_rank_are_no_finding(tmp_path, end):
    assert finding(tmp_path, OPENING + end) is None


def test_old_warnings_list_the_ranks_that_came(tmp_path):
    found = finding(tmp_path, f"{OPENING}Stalled ops: a [ready ranks: 0, 2]\n")
    assert (found["subject"], found["confidence"]) == ("rank 1", "likely")


def test_the_facts_name_the_ranks_of_the_verdict(tmp_path):
    path = tmp_path / "job.log"
    old = "Stalled ops: a.weight [ready ranks: 0, 1, 3]\n"
    path.write_text(f"{OPENING}{old}{OPENING}Missing ranks:\n1: [b.weight]\n", encoding="utf-8")
    (file,) = analyze_files(load_run(path)).files
    named = next(fact.value for fact in file.facts if fact.name == "missing_ranks")
    assert named == "1, 2"
    assert "ranks 1 and 2 did not submit" in file.verdict
