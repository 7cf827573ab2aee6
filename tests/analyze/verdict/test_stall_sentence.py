import pytest

from hvdprof.analyze.verdict.stall_sentence import stall_sentence
from hvdprof.model.tables.finding_tables import FINDINGS
from tests.builders.finished_analysis import finding


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        (
            "hvdprof's watchdog saw a stall. Stall at step 5 of main: rank 0 blocked for 20.0 s on "
            "stalled rank 1. The first stalled tensor is fc.weight.",
            "Stall at step 5 of main: rank 0 blocked for 20.0 s on stalled rank 1.",
        ),
        (
            "Horovod's stall check warned once that tensors stalled for 60.5 s or more, missing on "
            "rank 1.",
            "Horovod's stall check warned once that tensors stalled for 60.5 s or more, missing on "
            "rank 1.",
        ),
    ],
)
def test_the_stall_is_one_sentence(evidence, sentence):
    rows = FINDINGS.frame([finding(), finding(id="stalled-tensors", evidence=evidence)])
    assert stall_sentence(rows) == sentence


def test_without_a_stall_it_is_empty():
    assert stall_sentence(FINDINGS.frame([finding()])) == ""
