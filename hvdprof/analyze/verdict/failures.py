"""Which measurements have no result, and why.

Tested in ``tests/analyze/verdict/test_data_quality.py``.
"""

from hvdprof.model.run import FailedSegment
from hvdprof.rundir.failures.failure import Failure
from hvdprof.rundir.manifest import Manifest, PassRecord, SegmentRecord, Status


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
        lines=tuple(failure.lines),
        is_counted=record.status == Status.PARTIAL,
    )
