import pytest

from hvdprof.analyze.findings.log_rules.collective_timeout_rule import collective_timeout
from hvdprof.analyze.findings.log_rules.printed_warning_rules import (
    adasum_on_cpu,
    network_timeout,
)
from hvdprof.api import analyze_files, load_run
from hvdprof.model.tables.log_tables import INCIDENTS
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_TIMEOUTS
from tests.builders.declared_rows import declared_rows
from tests.builders.finding_style import style_faults


def timeouts(*ranks, sequence=7, operation="ALLREDUCE", **values):
    unknown = dict.fromkeys(
        ("num_elements_in", "num_elements_out", "num_group_ranks", "last_enqueued", "timeout_ns")
    )
    return [
        {
            **unknown,
            "reported_by": None,
            "last_completed": None,
            "rank": rank,
            "line": 10 + rank,
            "timed_out": True,
            "sequence": sequence,
            "operation": operation,
            "waited_ns": 120 * 10**9,
            **values,
        }
        for rank in ranks
    ]


def found(rows, num_ranks=None):
    findings = list(collective_timeout(declared_rows(COLLECTIVE_TIMEOUTS, *rows), num_ranks))
    return findings[0] if findings else None


def test_all_ranks_that_time_out_accuse_no_rank():
    finding = found(timeouts(*range(4)), 4)
    assert finding.detail == "ALLREDUCE on all 4 ranks"
    assert "All 4 ranks timed out in ALLREDUCE (SeqNum 7) after 2 min 00 s." in finding.evidence
    assert "None is missing" in finding.evidence
    assert "network" in finding.action.text
    assert "suspect" not in finding.evidence


def test_ranks_without_a_timeout_are_the_suspects():
    finding = found(timeouts(0, 2, 3), 4)
    assert finding.detail == "ALLREDUCE, without rank 1"
    assert (
        "If the output is complete and it was not ended first, rank 1 is the suspect."
        in finding.evidence
    )
    assert finding.action.text.startswith("Read the output of rank 1 first.")
    assert (finding.line, finding.severity) == (10, "error")


def test_a_rank_that_had_enqueued_the_collective_is_no_suspect():
    rows = timeouts(0, 1) + timeouts(2, sequence=None, timed_out=False, last_enqueued=9)
    behind = timeouts(3, sequence=None, timed_out=False, last_enqueued=6)
    assert "All ranks had enqueued it" in found(rows, 3).evidence
    assert found(rows + behind, 4).evidence.endswith(
        "after 2 min 00 s. Rank 3 had not enqueued it."
    )


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_where_a_rank_had_not_enqueued_the_collective_the_network_is_no_suspect(num_ranks):
    behind = timeouts(1, sequence=None, timed_out=False, last_enqueued=6)
    finding = found(timeouts(0) + behind, num_ranks)
    assert finding.detail == "ALLREDUCE, without rank 1"
    assert finding.action.text.startswith("Read the output of rank 1 first.")
    assert "network" not in finding.action.text
    assert finding.confidence == "likely"


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((0, 1, 2), "Ranks without a time-out, if any, are the suspects."),
        ((0, 1, 3), "No time-out of rank 2 is printed, nor of any above rank 3."),
    ],
)
def test_an_unknown_number_of_ranks_is_said(ranks, said):
    finding = found(timeouts(*ranks))
    assert "does not state the number of ranks" in finding.evidence
    assert finding.action.text.startswith(
        "Check the network" if "if any" in said else "Read the output"
    )
    assert said in finding.evidence
    # The job may have more ranks than the highest that is named.
    assert "rank 2 is the suspect" not in finding.evidence
    assert finding.confidence == "possible"


def test_the_group_size_counts_and_another_group_names_no_rank():
    known = timeouts(0, 2, num_group_ranks=3, operation="ALLGATHER")
    assert found(known).detail == "ALLGATHER, without rank 1"
    subgroup = timeouts(8, 10, num_group_ranks=4, group="3")
    finding = found(subgroup)
    assert finding.detail == "ALLREDUCE on 2 of 4 ranks"
    assert "rank 9" not in finding.evidence + finding.action.text


def test_different_collectives_at_one_number_are_the_finding():
    rows = timeouts(7, operation="BROADCAST", num_elements_in=5056) + timeouts(3)
    finding = found(rows, 8)
    assert finding.detail == "ranks called different collectives"
    assert "rank 7 waits in BROADCAST of 5,056 elements" in finding.evidence
    uneven = [
        *timeouts(0, operation="ALLTOALL_BASE", num_elements_in=5),
        *timeouts(1, operation="ALLTOALL_BASE", num_elements_in=9),
    ]
    assert "different" not in found(uneven, 2).detail
    sizes = timeouts(0, num_elements_in=5) + timeouts(1, num_elements_in=9)
    assert "different" in found(sizes, 2).detail
    groups = timeouts(0, group="1") + timeouts(1, group="2", operation="ALLGATHER")
    assert "different" not in found(groups, 2).detail


def test_sizes_that_a_cut_record_lacks_are_no_difference():
    whole = timeouts(0, 1, num_elements_in=112, num_elements_out=112)
    cut = timeouts(2, num_elements_in=112, num_elements_out=None)
    assert "different" not in found([*whole, *cut]).detail


def test_different_numbers_are_no_proof():
    finding = found(timeouts(0, sequence=96117) + timeouts(7, sequence=64088), 8)
    assert finding.confidence == "possible"
    assert "Where both are of one process group" in finding.evidence


def test_numbers_of_two_groups_are_not_compared():
    rows = [
        *timeouts(6, sequence=40, operation="ALLTOALL_BASE", group="3 PG GUID 21"),
        *timeouts(7, sequence=9, group="3 PG GUID 12"),
    ]
    finding = found(rows, 8)
    assert finding.detail == "in 2 process groups"
    assert "rank 6 in ALLTOALL_BASE (SeqNum 40) of group 3 GUID 21" in finding.evidence
    assert "they do not compare" in finding.evidence
    assert "behind" not in finding.evidence


def test_one_group_is_one_in_the_words_of_every_line():
    rows = timeouts(0, group="0 PG GUID 0(default_pg)") + timeouts(1, group="0 (default_pg)")
    assert found(rows, 2).detail == "ALLREDUCE on all 2 ranks"
    apart = timeouts(0, sequence=9, group="0") + timeouts(1, sequence=7, group="0 PG GUID 0(x)")
    assert "Both are of one process group" in found(apart, 2).evidence


def test_a_timeout_that_another_rank_reports_says_so():
    finding = found(timeouts(9, sequence=None, operation="", reported_by=5))
    assert finding.evidence.startswith("Rank 9 timed out in a collective after 2 min 00 s, says")
    assert "rank 5" in finding.evidence


def test_only_the_first_timeout_of_a_rank_counts():
    rows = timeouts(0, sequence=5) + timeouts(0, sequence=6) + timeouts(1, sequence=5)
    assert "(SeqNum 5)" in found(rows, 2).evidence


@pytest.mark.heavy
def test_the_output_of_each_rank_in_a_file_of_its_own_is_one_job(tmp_path):
    tag = "[E ProcessGroupNCCL.cpp:616] [Rank {}] Watchdog caught collective operation timeout: "
    work = "WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=96, NumelOut=96) ran for 600020 "
    for rank in (0, 1, 3):
        text = tag.format(rank) + work + "milliseconds before timing out.\n"
        (tmp_path / f"rank{rank}.out").write_text(text)
    findings = analyze_files(load_run([tmp_path])).findings
    assert findings["title"].tolist() == ["Collective timeout: ALLREDUCE on 3 ranks"]
    assert "No time-out of rank 2 is printed, nor" in findings["evidence"].iloc[0]


def test_states_alone_are_no_finding():
    assert found(timeouts(0, timed_out=False), 2) is None


def incidents(kind, *ranks, message="m"):
    blank = dict.fromkeys(("failed_rank", "exit_code", "signal"))
    rows = [{**blank, "kind": kind, "rank": r, "line": 5, "message": message} for r in ranks]
    return declared_rows(INCIDENTS, *rows)


def test_adasum_on_the_cpu_is_a_warning():
    (finding,) = adasum_on_cpu(incidents("adasum", None, None))
    assert (finding.severity, finding.line) == ("warning", 5)
    assert "2 times" in finding.evidence
    assert style_faults(finding.row()) == []
    assert not list(adasum_on_cpu(incidents("exception", None)))


def test_network_timeouts_name_the_ranks_that_waited():
    (finding,) = network_timeout(incidents("network-timeout", 1, 3, message="Timed out"))
    assert finding.evidence.startswith("2 connections of ranks 1 and 3 timed out.")
    assert finding.quote == "Timed out"
    assert style_faults(finding.row()) == []


@pytest.mark.parametrize("num_ranks", [None, 3, 4, 9])
def test_every_finding_has_the_style(num_ranks):
    for rows in (timeouts(0, 1, 2), timeouts(0, sequence=1), timeouts(0, group="2")):
        assert style_faults(found(rows, num_ranks).row()) == []


NCCL_LINE = "oak1:52:60 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.0.0.1<0>\n"
ALL_LATE = "".join(
    f"[rank{rank}]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=96, NumelOut=96, "
    "Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
    for rank in range(2)
)


@pytest.mark.parametrize(
    ("more", "is_advised"),
    [("", True), (NCCL_LINE.replace("INFO", "WARN"), True), (NCCL_LINE, False)],
)
def test_lines_of_nccl_that_are_there_are_not_asked_for(tmp_path, more, is_advised):
    path = tmp_path / "job.log"
    path.write_text(more + ALL_LATE, encoding="utf-8")
    rows = analyze_files(load_run(path)).derived["findings"]
    assert rows["action"].str.contains("NCCL_DEBUG=INFO").any() == is_advised
