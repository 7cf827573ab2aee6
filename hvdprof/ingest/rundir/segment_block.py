"""A row of SEGMENTS: what a launch measured of one model, and how far one is that still runs.

The manifest says of neither what its ranks have ended: it is written at the end of a launch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hvdprof.ingest.recorder.recorder_file import RecorderFile, SegmentRecording
from hvdprof.ingest.storage.blocks import Block
from hvdprof.model.cell_key import LAUNCH
from hvdprof.model.run import Run
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.rundir.failures.launcher_failures import WAS_INTERRUPTED, Failure, FailureKind
from hvdprof.rundir.gpu_crowd import GpuCrowd
from hvdprof.rundir.manifest import NOT_ENDED, Manifest, PassRecord, SegmentRecord, Status
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, DDP_ENGINE, FSDP_ENGINE, LEAST_STEPS_OF_RESULT
from hvdprof.rundir.recording.recorder_format import GRAD_REDUCE, UNSHARD_BACKWARD, UNSHARD_FORWARD

KILLED = "hvdprof was killed"

_OPEN_PASS = (Status.RUNNING, Status.INTERRUPTED)
_OPEN = (*NOT_ENDED, Status.INTERRUPTED)


def _recorded_batch_size(recordings: Sequence[SegmentRecording]) -> int:
    """The median of samples per rank and step; 0 where nothing was recorded."""
    samples = [recording.step_table()[:, 4] for recording in recordings]
    counted = np.concatenate(samples) if samples else np.empty(0, np.int64)
    return int(np.median(counted)) if len(counted) else 0


def segment_block(
    record: PassRecord,
    segment: SegmentRecord,
    files: Mapping[int, RecorderFile],
    crowd: GpuCrowd | None = None,
) -> Block:
    """The row of SEGMENTS of one segment.

    Args:
        record: The launch.
        segment: What it trained.
        files: The recorder file of each rank that was recorded.
        crowd: Its ranks that share a GPU.
    """
    plan = segment.segment
    recordings = [file.segments[plan.id] for file in files.values() if plan.id in file.segments]
    return {
        "pass_id": record.id,
        "segment": plan.id,
        "mode": record.mode,
        "repeat": record.repeat,
        "engine": plan.engine,
        "model": plan.model,
        "size": record.size,
        "compression": plan.compression,
        "reduction": plan.reduction,
        "batch_size": plan.batch_size or _recorded_batch_size(recordings),
        "image_size": plan.image_size,
        "status": segment.status,
        "num_ranks_recorded": len(recordings),
        "num_tensors": recordings[0].num_tensors if recordings else 0,
        "gradient_bytes": recordings[0].size_bytes if recordings else 0,
        "sent_bytes": recordings[0].sent_bytes if recordings else 0,
        "oversubscribed": record.oversubscribed or (crowd is not None and not crowd.is_misplaced),
        "pinned": record.pinned,
        "busy_cores": _busy_cores(recordings),
        "startup_ns": _startup_ns(record, segment, files.get(0)),
    }


def with_seen_engines(segments: Sequence[Block], waits: Sequence[Block]) -> list[Block]:
    """The rows of SEGMENTS with the engines that the waits of the ranks show.

    The launcher of DDP starts scripts of FSDP2, too, whose ranks gather parameters, and loops that
    reduce by collectives of their own. One rank of FSDP2 alone gathers nothing, so the launches of
    a model have one engine.
    """
    engine_of: dict[tuple[object, object], str] = {}
    for block in waits:
        kinds = set(block["kind"].categories)
        launch = block["pass_id"], block["segment"]
        if kinds & {UNSHARD_FORWARD, UNSHARD_BACKWARD}:
            engine_of[launch] = FSDP_ENGINE
        elif GRAD_REDUCE not in kinds:
            engine_of.setdefault(launch, COLLECTIVES_ENGINE)
    by_model: dict[object, set[str]] = {}
    for block in segments:
        own = engine_of.get((block["pass_id"], block["segment"]))
        by_model.setdefault(block["model"], set()).update([own] if own else [])
    return [
        {**block, "engine": FSDP_ENGINE if FSDP_ENGINE in seen else COLLECTIVES_ENGINE}
        if block["engine"] == DDP_ENGINE and (seen := by_model[block["model"]])
        else block
        for block in segments
    ]


def _busy_cores(recordings: Sequence[SegmentRecording]) -> float:
    """Processor time of ranks and workers divided by the mean time of steps; NaN where unknown.

    Time in which a launch was stopped is in neither.
    """
    lengths = [float(recording.recorded_ns) for recording in recordings]
    if not recordings or not all(lengths):
        return float("nan")
    return sum(recording.busy_ns for recording in recordings) * len(lengths) / sum(lengths)


def _startup_ns(record: PassRecord, segment: SegmentRecord, rank_0: RecorderFile | None) -> float:
    """From the start of the launcher to the first step; NaN where unknown.

    Sessions of elastic launches begin without their launcher, and clocks of other hosts may be
    behind.
    """
    recording = None if rank_0 is None else rank_0.segments.get(segment.segment.id)
    is_first = record.segments[0] is segment and record.session is None
    if rank_0 is None or recording is None or record.launched_ns is None or not is_first:
        return float("nan")
    starts_ns = recording.step_table()[:, 2]
    wall_ns, monotonic_ns = (rank_0.header_number(key, 0) for key in ("wall_ns", "monotonic_ns"))
    if not len(starts_ns) or not wall_ns:
        return float("nan")
    startup_ns = int(starts_ns.min()) - monotonic_ns + wall_ns - record.launched_ns
    return float(startup_ns) if startup_ns > 0 else float("nan")


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
            elif is_whole and min(one.steps_of_rows().sum() for one in recordings) >= least_steps:
                segment.status = Status.RUNNING
            elif segment.status == Status.RUNNING:
                segment.status = Status.PLANNED


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
                if record.session:
                    # A session that anything ended is as complete as any.
                    segment.status = Status.DONE
                elif segment.status == Status.RUNNING:
                    segment.status = Status.PARTIAL
                    segment.failure = (
                        Failure(reason=KILLED)
                        if run.manifest.was_killed
                        else Failure(reason=WAS_INTERRUPTED, kind=FailureKind.INTERRUPTED)
                    )
                elif segment.status in NOT_ENDED:
                    segment.status = Status.INTERRUPTED
        if record.status == Status.RUNNING and run.manifest.status not in NOT_ENDED:
            record.status = Status.INTERRUPTED
    statuses = {
        (record.id, segment.segment.id): segment.status
        for record in run.manifest.passes
        for segment in record.segments
    }
    settled = rows.assign(status=[statuses[key] for key in reached])
    return replace(run, frames={**run.frames, SEGMENTS.name: SEGMENTS.frame(settled)})
