"""Why a segment of a run has no result: for people a sentence, for programs its kind."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

NO_PROGRESS = "no progress on any rank"
NOT_RETRIED = "not retried because"
STALL_KILL = "ended by --stall-kill: "
UNEQUAL = "unequal numbers of batches per rank"
WAS_INTERRUPTED = "it was interrupted"


class FailureKind(StrEnum):
    """What programs distinguish; most failures are of no kind.

    ``HUNG`` was ended by hvdprof because no rank made progress, ``STALLED`` because of a stall, or
    ended itself in one. ``NOT_RETRIED`` failed alike before, and was not started.
    """

    HUNG = "hung"
    STALLED = "stalled"
    UNEQUAL = "unequal-batches"
    INTERRUPTED = "interrupted"
    NOT_RETRIED = "not-retried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a segment has no result: one sentence, and the evidence for it.

    ``kind`` is one of ``FailureKind``, or None; ``detail`` is the clause of the reason on which
    ranks had fewer batches. ``rank`` is the rank that failed first where that is known, and
    ``host`` where it ran; ``exit_code`` and ``signal`` are that process's; ``lines`` are the last
    lines printed that explain it.
    """

    reason: str
    kind: str | None = None
    detail: str = ""
    rank: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    lines: list[str] = field(default_factory=list)
    host: str | None = None


_BEGINNINGS = {
    NO_PROGRESS: FailureKind.HUNG,
    STALL_KILL: FailureKind.STALLED,
    WAS_INTERRUPTED: FailureKind.INTERRUPTED,
    NOT_RETRIED: FailureKind.NOT_RETRIED,
}


def with_kind(failure: Failure) -> Failure:
    """A failure of schema 1 or 2 of the manifest, whose reason alone states its kind.

    This is the one place that reads a reason.
    """
    _, is_unequal, what = failure.reason.partition(f"; {UNEQUAL}: ")
    if is_unequal:
        return replace(failure, kind=FailureKind.UNEQUAL, detail=f"{UNEQUAL}: {what}")
    kinds = (kind for begin, kind in _BEGINNINGS.items() if failure.reason.startswith(begin))
    is_stalled = " gave up waiting: " in failure.reason and "; stall " in failure.reason
    return replace(failure, kind=next(kinds, FailureKind.STALLED if is_stalled else None))
