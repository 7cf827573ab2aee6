from dataclasses import replace

from hvdprof.analyze.verdict.failure_caveat import failure_caveat
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


def test_of_several_failures_the_first_is_named():
    uncounted = replace(FAILED, is_counted=False)

    assert failure_caveat([uncounted, FAILED], ANSWER) == (
        "2 measurements failed, first at np=2: rank 1 raised ValueError: label 11 out of range."
    )


def test_a_run_without_a_failure_or_without_a_number_needs_no_caveat():
    assert not failure_caveat([], ANSWER)
    assert not failure_caveat([FAILED], replace(ANSWER, model=""))
