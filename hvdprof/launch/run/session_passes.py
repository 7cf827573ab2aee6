"""The sessions of an elastic launch as passes of the manifest, beside that of the launch itself."""

from collections.abc import Iterator
from dataclasses import replace

from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.run.placement_check import refine_from_ranks
from hvdprof.launch.run.session_progress import ElasticProgress, size_of
from hvdprof.rundir.failure import Failure
from hvdprof.rundir.layout import RunPaths, session_id
from hvdprof.rundir.manifest import Manifest, PassRecord, SegmentRecord, Status

LAUNCH_ITSELF = 0

_NOTHING_RECORDED = (
    "the launch ended without an error, but no session was recorded; an elastic script is recorded "
    "from the call of the function that hvd.elastic.run of horovod.torch decorates"
)


def add_sessions(manifest: Manifest, launch: PassRecord, progress: ElasticProgress) -> bool:
    """Add the sessions that have begun since to the manifest; whether there were any."""
    present = {record.id for record in manifest.passes}
    added = [record for record in _records(launch, progress) if record.id not in present]
    place = place_after(manifest, launch)
    manifest.passes[place:place] = added
    return bool(added)


def place_after(manifest: Manifest, record: PassRecord) -> int:
    """The place in the passes after a pass, and after its sessions if it is an elastic launch."""
    return manifest.passes.index(record) + 1 + len(_sessions_of(manifest, record))


def end_sessions(
    manifest: Manifest, launch: PassRecord, progress: ElasticProgress, settings: Settings
) -> int:
    """Mark every session of a launch that has ended as done; the steps of the longest one.

    A session that a reset or a failure ended is as complete as any: all its steps happened. Steps
    that some rank has not ended do not count.
    """
    add_sessions(manifest, launch, progress)
    longest = 0
    for record in _sessions_of(manifest, launch):
        session = progress.sessions[record.session or LAUNCH_ITSELF]
        record.status = Status.DONE
        for segment in record.segments:
            segment.status = Status.DONE
        refine_from_ranks(record, manifest, session, settings)
        longest = max(longest, min(state.num_steps for state in session.ranks.values()))
    return longest


def recover_sessions(manifest: Manifest, paths: RunPaths, settings: Settings) -> None:
    """Mark the sessions of launches whose end hvdprof did not see as done, from their recordings.

    That happens where hvdprof itself was killed, or its machine went down.
    """
    for launch in [record for record in manifest.passes if record.session == LAUNCH_ITSELF]:
        if launch.status == Status.RUNNING:
            progress = ElasticProgress(paths.of_pass(launch.id))
            progress.update()
            end_sessions(manifest, launch, progress, settings)


def settle_sessions(
    manifest: Manifest,
    launch: PassRecord,
    progress: ElasticProgress,
    settings: Settings,
    failure: Failure | None,
) -> None:
    """Give an elastic launch that has ended its status, and each of its sessions.

    Where all went well the sessions stand for the launch. A launch that failed keeps its segment
    with the failure; it counts as partial where a session has steps after its warm-up.
    """
    longest = end_sessions(manifest, launch, progress, settings)
    if failure is None and progress.sessions:
        launch.segments, launch.status = [], Status.DONE
        return
    has_result = longest > settings.num_warmup_batches
    for segment in launch.segments:
        segment.status = Status.PARTIAL if has_result else Status.FAILED
        segment.failure = failure or Failure(reason=_NOTHING_RECORDED)
    launch.status = Status.FAILED


def _records(launch: PassRecord, progress: ElasticProgress) -> Iterator[PassRecord]:
    for number, session in progress.sessions.items():
        size = size_of(session)
        if size is not None:
            yield replace(
                launch,
                id=session_id(launch.id, number),
                session=number,
                size=size,
                segments=[
                    SegmentRecord(segment=segment.segment, status=Status.RUNNING)
                    for segment in launch.segments
                ],
                status=Status.RUNNING,
                command=[],
                environment={},
                worker_ends=[],
            )


def _sessions_of(manifest: Manifest, launch: PassRecord) -> list[PassRecord]:
    return [
        record
        for record in manifest.passes
        if record.session and record.id == session_id(launch.id, record.session)
    ]
