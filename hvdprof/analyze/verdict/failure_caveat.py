"""The caveat of a verdict on a run in which a measurement failed: what of it is in the numbers."""

from collections.abc import Sequence

from hvdprof.analyze.verdict.failure_sentence import failure_sentence
from hvdprof.model.run import FailedSegment, Verdict

_ONLY_BEFORE = "Only steps before the failure count."


def failure_caveat(failed: Sequence[FailedSegment], answer: Verdict, num_measured: int) -> str:
    """``2 of 28 measurements failed and are excluded: see Failed.``, or empty.

    The reasons stand in the section Failed; one that leads the verdict is not counted again.

    Args:
        failed: The failed measurements of the run, first failure first.
        answer: The verdict; one on no cell says by itself what failed.
        num_measured: All measurements of the run.
    """
    if not failed or not answer.model:
        return ""
    lead = failure_sentence(failed, answer.model, answer.np, answer.engine)
    counted = sum(one.is_counted for one in failed)
    if lead and answer.parts.lead == lead and len(failed) == 1:
        return _ONLY_BEFORE if counted else ""
    excluded = len(failed) - counted
    parts = []
    if excluded:
        are = "is" if excluded == 1 else "are"
        parts.append(f"{excluded} of {num_measured} measurements failed and {are} excluded")
    if counted:
        parts.append(f"{counted} of {num_measured} ended early, and only steps before that count")
    return f"{'; '.join(parts)}: see Failed."
