"""What the ranks of a pass are given before they start: its folders and its plan.

Tested in ``tests/launch/run/test_sweep.py``.
"""

from pathlib import Path

from hvdprof.errors import StorageError
from hvdprof.launch.plan.settings import Settings
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord, Status
from hvdprof.rundir.plan import PLAN_SCHEMA_VERSION, Plan, Segment
from hvdprof.rundir.run_file import make_run_folders


def make_pass_folders(paths: PassPaths) -> None:
    """Make the folders that the ranks of a pass write into.

    Raises:
        StorageError: One could not be made.
    """
    for folder in (paths.recorder_folder, paths.timeline("x").parent, paths.nccl_folder):
        make_folder(folder)


def make_folder(folder: Path) -> None:
    """Make a folder with those above it.

    Raises:
        StorageError: It could not be made.
    """
    try:
        make_run_folders(folder)
    except OSError as error:
        raise StorageError(f"Could not make {folder}: {error.strerror}.") from error


def planned_segments(record: PassRecord) -> list[Segment]:
    """The segments of a pass that have no result yet, in their order."""
    return [segment.segment for segment in record.segments if segment.status == Status.PLANNED]


def plan_of(settings: Settings, record: PassRecord) -> Plan:
    """The plan of a pass."""
    options = settings.of_models
    return Plan(
        schema_version=PLAN_SCHEMA_VERSION,
        pass_id=record.id,
        mode=record.mode,
        size=record.size,
        num_threads=settings.num_threads,
        pin_cores=record.pinned,
        device=settings.device,
        data=settings.data,
        data_dir=None if options.data_dir is None else str(options.data_dir),
        seed=options.seed,
        segments=planned_segments(record),
        bucket_cap_mb=options.fusion_threshold_mb,
    )
