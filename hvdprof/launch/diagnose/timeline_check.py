"""Whether Horovod wrote the timelines that it began: where it cannot, it trains without them."""

import re
from collections.abc import Iterator

from hvdprof.launch.diagnose.failure_place import with_place
from hvdprof.launch.diagnose.rank_progress import PassProgress, RankState
from hvdprof.rundir.failures.failure import Failure
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord, Status

_WRITER = 0
_HOROVOD_ERROR = re.compile(r"Error (?:opening|writing to) the Horovod Timeline.*")


def fail_without_timeline(
    record: PassRecord, paths: PassPaths, progress: PassProgress, stderr: str
) -> None:
    """Fail the segments of a launch that ended well, but without a timeline that was begun.

    Their steps ran without a timeline, so they do not show what a timeline costs.

    Args:
        record: The pass; gets the failures.
        paths: Its files.
        progress: What the ranks recorded; rank 0 records which timelines it began.
        stderr: The end of what was printed as errors.
    """
    writer = progress.ranks.get(_WRITER)
    if writer is None:
        return
    errors = [*_HOROVOD_ERROR.findall(stderr), *writer.timeline_problems]
    lacking = set(_not_written(writer, paths))
    if errors and not lacking:
        # Horovod stopped within a file: the last one.
        planned = [segment.segment.id for segment in record.segments if segment.segment.timeline]
        lacking = {[*planned, *writer.timelines][-1]} if planned else set()
    reason = f"rank {_WRITER} could not write Horovod's timeline"
    failure = Failure(
        reason=f"{reason}: {errors[-1].rstrip('.')}"
        if errors
        else f"{reason}; it printed no error",
        rank=_WRITER,
        lines=errors,
    )
    for segment in record.segments:
        if segment.segment.id in lacking and segment.status == Status.DONE:
            segment.status = Status.FAILED
            segment.failure = with_place(failure, progress, 0)
            record.status = Status.FAILED


def _not_written(writer: RankState, paths: PassPaths) -> Iterator[str]:
    """The segments whose timeline was begun, but is no file with something in it."""
    for segment, file in writer.timelines.items():
        path = paths.folder / file
        if not path.is_file() or not path.stat().st_size:
            yield segment
