"""How far the segments of a launch are that still runs, or was cut off without a last word.

Tested in ``tests/ingest/rundir/test_open_segments.py``.

The manifest says of neither what its ranks have ended: it is written at the end of a launch.
"""

from collections.abc import Mapping
from dataclasses import replace

from hvdprof.ingest.recorder.recorder_file import RecorderFile, SegmentRecording
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.run import Run
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.rundir.failures.failure import WAS_INTERRUPTED, Failure, FailureKind
from hvdprof.rundir.manifest import NOT_ENDED, Manifest, PassRecord, SegmentRecord, Status
from hvdprof.rundir.plan import LEAST_STEPS_OF_RESULT

KILLED = "hvdprof was killed"

_OPEN_PASS = (Status.RUNNING, Status.INTERRUPTED)
_OPEN = (*NOT_ENDED, Status.INTERRUPTED)


def mark_reached(manifest: Manifest, record: PassRecord, files: Mapping[int, RecorderFile]) -> None:
    """Give the open segments of a launch the status that its ranks recorded.

    ``running`` has enough steps for a result; what has not stays planned or interrupted.

    Args:
        manifest: That of the run.
        record: The launch; its segments are changed.
        files: The recorder file of each rank that was recorded.
    """
    num_warmup = manifest.settings.get("num_warmup_batches")
    least_steps = LEAST_STEPS_OF_RESULT + (num_warmup if isinstance(num_warmup, int) else 0)
    for segment in record.segments if record.status in _OPEN_PASS else ():
        if segment.status in _OPEN:
            of_ranks = [file.segments.get(segment.segment.id) for file in files.values()]
            recordings = [recording for recording in of_ranks if recording is not None]
            is_whole = 0 < len(recordings) == record.size
            if is_whole and not record.session and all(recording.ended for recording in recordings):
                segment.status = Status.DONE
            elif is_whole and min(map(_num_steps, recordings)) >= least_steps:
                segment.status = Status.RUNNING
            elif segment.status == Status.RUNNING:
                segment.status = Status.PLANNED


def _num_steps(recording: SegmentRecording) -> int:
    return int(recording.steps_of_rows().sum())


def with_reached_statuses(run: Run) -> Run:
    """The run whose manifest says how far its open launches are.

    Where the run was cut off they are as after Ctrl-C: what was recorded counts.
    """
    rows = run.segments
    if rows.empty or all(record.status not in _OPEN_PASS for record in run.manifest.passes):
        return run
    keys = rows[LAUNCH].astype(str).itertuples(index=False, name=None)
    reached = dict(zip(keys, rows["status"].astype(str), strict=True))
    for record in run.manifest.passes:
        for segment in record.segments if record.status in _OPEN_PASS else ():
            segment.status = reached.get((record.id, segment.segment.id), segment.status)
            if run.manifest.status not in NOT_ENDED:
                _cut_off(run.manifest, record, segment)
        if record.status == Status.RUNNING and run.manifest.status not in NOT_ENDED:
            record.status = Status.INTERRUPTED
    statuses = {
        (record.id, segment.segment.id): segment.status
        for record in run.manifest.passes
        for segment in record.segments
    }
    settled = rows.assign(status=[statuses[key] for key in reached])
    return replace(run, frames={**run.frames, SEGMENTS.name: SEGMENTS.frame(settled)})


def _cut_off(manifest: Manifest, record: PassRecord, segment: SegmentRecord) -> None:
    if record.session:
        # A session that anything ended is as complete as any.
        segment.status = Status.DONE
    elif segment.status == Status.RUNNING:
        segment.status = Status.PARTIAL
        segment.failure = (
            Failure(reason=KILLED)
            if manifest.was_killed
            else Failure(reason=WAS_INTERRUPTED, kind=FailureKind.INTERRUPTED)
        )
    elif segment.status in NOT_ENDED:
        segment.status = Status.INTERRUPTED
