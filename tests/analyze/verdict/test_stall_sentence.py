import pytest

from hvdprof.analyze.verdict.stall_sentence import stall_sentence
from hvdprof.model.tables.finding_tables import FINDINGS
from tests.builders.finished_analysis import finding


def test_the_stall_is_the_sentence_that_its_finding_states():
    lead = "Stall at step 5 of main: rank 0 blocked for 20.0 s on stalled rank 1."
    rows = FINDINGS.frame([finding(lead="No."), finding(id="stalled-tensors", lead=lead)])
    assert stall_sentence(rows) == lead


def test_without_a_stall_it_is_empty():
    assert stall_sentence(FINDINGS.frame([finding()])) == ""


@pytest.mark.parametrize(
    ("severity", "quote", "where"),
    [
        ("error", "rank 1: /job/h1.py:7 <module>", " Rank 1 hangs at h1.py:7."),
        (
            "error",
            "rank 1 in data: /job/data.py:33 load",
            " Rank 1 hangs at data.py:33 (load, data phase).",
        ),
        (
            "error",
            "rank 0: /v/torch/serialization.py:850 save, called at /job/train.py:29 <module>",
            " Rank 0 hangs at train.py:29 (save of serialization.py).",
        ),
        ("error", "", ""),
        ("warning", "rank 1: /job/h1.py:7 <module>", ""),
    ],
)
def test_a_stall_that_ended_the_job_names_where_the_rank_hangs(severity, quote, where):
    stall = "Stall at step 5 of main: rank 0 blocked for 20.0 s on stalled rank 1."
    row = finding(id="stalled-tensors", lead=stall, severity=severity, quote=quote)
    assert stall_sentence(FINDINGS.frame([row])) == stall + where
