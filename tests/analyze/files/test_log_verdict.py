import pytest

from hvdprof.analyze.files.log_verdict import log_verdict
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.log_tables import STALLS
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import finding

NO_FINDINGS, NO_STALLS = FINDINGS.frame([]), STALLS.frame([])
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
    assert log_verdict(rows, NO_STALLS).sentence == sentence


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("missing", "Stall: rank 1 did not submit 2 tensors for at least 60.0 s."),
        ("ready", "Stall: 2 tensors stalled for at least 60.0 s."),
    ],
)
def test_stalls_name_the_ranks_that_did_not_submit(state, sentence):
    rows = [{"stalled_rank": 1, "tensor": name, "state": state, "waited_s": 60.0} for name in "ab"]
    assert log_verdict(NO_FINDINGS, declared_rows(STALLS, *rows)).sentence == sentence
