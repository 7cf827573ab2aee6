"""Which measurements have no result, and why."""

from hvdprof.model.run import FailedSegment
from hvdprof.rundir.manifest import Manifest, Status


def failed_segments(manifest: Manifest) -> tuple[FailedSegment, ...]:
    """The segments that failed or were interrupted, in the order of the passes."""
    return tuple(
        FailedSegment(
            pass_id=one.id,
            model=record.segment.model,
            np=one.size,
            compression=record.segment.compression,
            reduction=record.segment.reduction,
            reason=record.failure.reason if record.failure else f"It was {record.status}.",
            lines=tuple(record.failure.lines) if record.failure else (),
        )
        for one in manifest.passes
        for record in one.segments
        if record.status in (Status.FAILED, Status.INTERRUPTED)
    )
