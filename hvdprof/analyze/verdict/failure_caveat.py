"""The caveat of a verdict on a run in which a measurement failed."""

from collections.abc import Sequence

from hvdprof.analyze.verdict.failure_sentence import failure_sentence
from hvdprof.model.run import FailedSegment, Verdict
from hvdprof.rundir.stall_format import STALL_CLAUSE, UNEQUAL, UNTIL_END

_ONLY_BEFORE = "Only steps before the failure count."


def failure_caveat(failed: Sequence[FailedSegment], answer: Verdict) -> str:
    """``1 measurement failed, at np=2: rank 1 raised ValueError: ...``, or empty.

    Args:
        failed: The failed measurements of the run, first failure first.
        answer: The verdict; one on no cell says by itself what failed.
    """
    if not failed or not answer.model:
        return ""
    lead = failure_sentence(failed, answer.model, answer.np, answer.engine)
    if lead and answer.sentence.startswith(lead):
        number = f"{len(failed)} measurements failed." if len(failed) > 1 else ""
        is_counted = any(one.is_counted for one in failed)
        return f"{number} {_ONLY_BEFORE if is_counted else ''}".strip()
    first, several = failed[0], len(failed) > 1
    number = f"{len(failed)} measurements failed, first" if several else "1 measurement failed,"
    counted = "Its steps before that count." if first.is_counted else ""
    reason = first.reason.rstrip(".")
    if UNTIL_END in answer.sentence:
        # It says which stall that was.
        reason = reason.partition(STALL_CLAUSE)[0]
    if UNEQUAL in answer.sentence.lower():
        reason = reason.partition(f"; {UNEQUAL}")[0]
    return f"{number} at np={first.np}: {reason}. {counted}".rstrip()
