"""Whether Horovod wrote the timelines that it began: where it cannot, it says so and trains on."""

import re
from collections.abc import Iterator

from hvdprof.launch.diagnose.failure_place import with_place
from hvdprof.launch.diagnose.rank_progress import PassProgress, RankState
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Failure, PassRecord, Status

_WRITER = 0
_SAID_BY_HOROVOD = re.compile(r"Error (?:opening|writing to) the Horovod Timeline.*")
_SAID_BY_RECORDER = "no timeline: "


def fail_without_timeline(
    record: PassRecord, paths: PassPaths, progress: PassProgress, stderr: str
) -> None:
    """Fail the segments of a launch that ended well, but without a timeline that was begun.

    Their steps were not measured with a timeline on, so they tell nothing of what one costs.

    Args:
        record: The pass; gets the failures.
        paths: Its files.
        progress: What the ranks recorded; rank 0 tells which timelines it began.
        stderr: The end of what was printed as errors.
    """
    writer = progress.ranks.get(_WRITER)
    if writer is None:
        return
    said = _SAID_BY_HOROVOD.findall(stderr)
    said += [one for one in writer.problems if one.startswith(_SAID_BY_RECORDER)]
    lacking = set(_not_written(writer, paths))
    if said and not lacking:
        # A file that was begun and then no more: the last one.
        planned = [one.segment.id for one in record.segments if one.segment.timeline]
        lacking = {[*planned, *writer.timelines][-1]} if planned else set()
    reason = f"rank {_WRITER} could not write Horovod's timeline"
    failure = Failure(
        reason=f"{reason}: {said[-1].rstrip('.')}" if said else f"{reason}, and nobody said why",
        rank=_WRITER,
        lines=said,
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
