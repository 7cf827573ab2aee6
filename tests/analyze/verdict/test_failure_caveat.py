from dataclasses import replace

import pytest

from hvdprof.analyze.verdict.failure_caveat import failure_caveat
from hvdprof.analyze.verdict.failure_sentence import failure_sentence
from hvdprof.model.run import FailedSegment, Verdict

NAN = float("nan")
ANSWER = Verdict("resnet18 on 2 ranks: 394 samples/s.", "resnet18", 2, NAN, NAN, NAN, "", NAN)
FAILED = FailedSegment(
    pass_id="01",
    model="resnet18",
    np=2,
    engine="ddp",
    compression="none",
    reduction="average",
    reason="rank 1 raised ValueError: label 11 out of range",
    rank=1,
    exit_code=1,
    signal=None,
    lines=(),
    is_counted=True,
)


def test_a_crash_stands_beside_the_numbers_of_the_steps_before_it():
    assert failure_caveat([FAILED], ANSWER) == (
        "1 measurement failed, at np=2: rank 1 raised ValueError: label 11 out of range. "
        "Its steps before that count."
    )


def test_a_stall_that_leads_is_not_repeated():
    hung = "no progress on any rank for 20.0 s"
    failed = replace(FAILED, reason=f"{hung}; stall at step 9 since 10:00:00: rank 0 waited 19 s")
    led = replace(ANSWER, sentence="Stall at step 9: rank 0 blocked for 19 s until the job ended.")

    assert failure_caveat([failed], led).startswith(f"1 measurement failed, at np=2: {hung}. Its")
    assert "rank 0 waited 19 s" in failure_caveat([failed], ANSWER)


def test_unequal_batches_that_lead_are_not_repeated():
    unequal = "unequal numbers of batches per rank: rank 1 had ended the training loop"
    failed = replace(FAILED, reason=f"rank 0 lost a peer; {unequal}")
    led = replace(ANSWER, sentence=f"U{unequal[1:]}. {ANSWER.sentence}")

    assert failure_caveat([failed], led).startswith(
        "1 measurement failed, at np=2: rank 0 lost a peer. Its"
    )


def test_of_several_failures_the_first_is_named():
    uncounted = replace(FAILED, is_counted=False)

    assert failure_caveat([uncounted, FAILED], ANSWER) == (
        "2 measurements failed, first at np=2: rank 1 raised ValueError: label 11 out of range."
    )


def test_a_run_without_a_failure_or_without_a_number_needs_no_caveat():
    assert not failure_caveat([], ANSWER)
    assert not failure_caveat([FAILED], replace(ANSWER, model=""))


CELL = ("resnet18", 2, "ddp")
LEAD = "Failed at np=2: rank 1 raised ValueError: label 11 out of range."


def test_a_crash_of_the_judged_job_leads_and_the_caveat_does_not_repeat_it():
    led = replace(ANSWER, engine="ddp", sentence=f"{LEAD} {ANSWER.sentence}")

    assert failure_sentence([FAILED], *CELL) == LEAD
    assert failure_caveat([FAILED], led) == "Only steps before the failure count."


@pytest.mark.parametrize(
    ("change", "leads"),
    [
        ({"np": 4, "is_counted": False}, True),
        ({"is_counted": False}, False),
        ({"np": 1}, False),
        ({"model": "mnist"}, False),
        ({"compression": "fp16"}, False),
    ],
)
def test_failures_elsewhere_are_a_caveat(change, leads):
    assert bool(failure_sentence([replace(FAILED, **change)], *CELL)) == leads


def test_a_reason_that_prints_a_tensor_is_cut():
    long = failure_sentence([replace(FAILED, reason="x" * 2_000)], *CELL)

    assert len(long) < 300
    assert long.endswith(" ….")
