"""Which measurements have no result and why, and the first sentence of a verdict on it."""

from collections.abc import Sequence

from hvdprof.model.cell_key import NO_ADASUM, NO_COMPRESSION
from hvdprof.model.run import FailedSegment
from hvdprof.rundir.failures.launcher_failures import WAS_INTERRUPTED, Failure
from hvdprof.rundir.manifest import Manifest, PassRecord, SegmentRecord, Status

_LONGEST = 240
"""Characters of a reason in a verdict: an exception may print a whole tensor."""


def failure_sentence(
    failed: Sequence[FailedSegment], model: str, num_ranks: int, engine: str
) -> str:
    """``Failed at np=2: rank 1 raised ValueError: bad batch 40.``, or empty.

    A failed launch of the judged cell leads where its steps are in the number, and one of more
    ranks always. Others, such as one repeat of several, are a caveat.

    Args:
        failed: The failed measurements of the run, first failure first.
        model: That of the cell that the verdict judges.
        num_ranks: Its number of ranks.
        engine: Its engine.
    """
    for launch in failed:
        is_same_job = (launch.model, launch.engine) == (model, engine)
        has_toggles = launch.compression not in NO_COMPRESSION or launch.reduction not in NO_ADASUM
        if not is_same_job or has_toggles:
            continue
        if launch.np > num_ranks or (launch.np == num_ranks and launch.is_counted):
            if launch.reason == WAS_INTERRUPTED:
                return f"Interrupted at np={launch.np}."
            return f"Failed at np={launch.np}: {_short(launch.reason)}."
    return ""


def _short(reason: str) -> str:
    text = " ".join(reason.split()).rstrip(".")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()} …"


def failed_segments(manifest: Manifest) -> tuple[FailedSegment, ...]:
    """The segments that failed, in the order of the passes."""
    return tuple(
        _failed(of_pass, record)
        for of_pass in manifest.passes
        for record in of_pass.segments
        if record.status in (Status.FAILED, Status.PARTIAL)
    )


def _failed(of_pass: PassRecord, record: SegmentRecord) -> FailedSegment:
    failure = record.failure or Failure(reason=f"it was {record.status}")
    return FailedSegment(
        pass_id=of_pass.id,
        model=record.segment.model,
        np=of_pass.size,
        engine=record.segment.engine,
        compression=record.segment.compression,
        reduction=record.segment.reduction,
        reason=failure.reason,
        rank=failure.rank,
        exit_code=failure.exit_code,
        signal=failure.signal,
        host=failure.host,
        kind=failure.kind,
        lines=tuple(failure.lines),
        is_counted=record.status == Status.PARTIAL,
    )
