"""Launching the passes of a sweep, one or several resident, each with its folders and its plan."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.errors import StorageError
from hvdprof.launch.plan.environment import inherited_environment, is_on_this_host
from hvdprof.launch.plan.hosts import have_room
from hvdprof.launch.plan.preflight import require_space
from hvdprof.launch.plan.settings import (
    BY_MEMORY,
    NEVER_STOOD,
    STOOD_APART,
    Settings,
    failed_beside,
)
from hvdprof.launch.processes.launch_process import Launch, LaunchOutcome, Watch
from hvdprof.launch.run.resident_launch import ResidentLaunch
from hvdprof.launch.run.resident_launches import run_residents
from hvdprof.launch.run.sweep_state import SweepState
from hvdprof.launch.run.turn_socket import resident_warn_s
from hvdprof.launch.run.watched_pass import Watched, WatchedPass, watch_pass
from hvdprof.machine.install.build_tools import available_memory_bytes
from hvdprof.machine.load import CpuUse
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord, Status
from hvdprof.rundir.masking import mask_command, mask_value
from hvdprof.rundir.plan import PLAN_SCHEMA_VERSION, Plan, Segment
from hvdprof.rundir.written_file import make_run_folders


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


@dataclass(frozen=True, slots=True)
class PassLaunches:
    """Launches passes of a sweep; what they measured and why they failed is in their records."""

    state: SweepState

    def run(self, records: list[PassRecord]) -> None:
        """Run one pass, or resident ones together, and wait for their end.

        Raises:
            InterruptedRunError: Ctrl-C or SIGTERM.
            StorageError: The disk is full.
        """
        watched = [self._begin(record) for record in records]
        launches = [self._launch(*pair) for pair in zip(records, watched, strict=True)]
        num_together = 1
        turn_s = self.state.settings.turn_s
        try:
            if turn_s is not None and self.state.takes_turns(records[0]):
                residents = [
                    ResidentLaunch(
                        launch,
                        planned_segments(record),
                        turn_s,
                        warn_s=self.state.settings.options.stall_warn_s,
                    )
                    for launch, record in zip(launches, records, strict=True)
                ]
                outcomes = run_residents(residents, self._room(records))
                uses = [resident.use for resident in residents]
                if not any(resident.ran_alone for resident in residents):
                    num_together = len(residents)
                if any(resident.stood_apart for resident in residents):
                    self.state.end_turns(STOOD_APART)
                elif any(resident.never_stood for resident in residents):
                    self.state.end_turns(NEVER_STOOD)
            else:
                use = CpuUse()
                use.start()
                outcomes = [self.state.run_launch(launches[0])]
                uses = [use.stop()]
        except BaseException:
            for watch in watched:
                watch.interrupt()
            raise
        for record, watch, outcome, use_of_it in zip(records, watched, outcomes, uses, strict=True):
            if use_of_it is not None:
                record.steal_share = round(use_of_it.steal_share, 4)
                # Ranks that outlive their launcher would count as processes outside the pass.
                if outcome.exit_code == 0:
                    record.other_cpu_cores = round(use_of_it.other_cores, 3)
            record.launched_ns = outcome.launched_ns
            # What resident launches take together is divided among them.
            record.duration_s = round(outcome.duration_s / num_together, 3)
            self._end(record, watch, outcome)

    def failed_beside_others(self, records: list[PassRecord]) -> bool:
        """Whether launches of a script failed that may succeed by themselves; turns end then.

        Such launches write to the same file, or listen at the same port.
        """
        settings = self.state.settings
        failed = [record for record in records if record.status == Status.FAILED]
        is_resident = settings.turn_s is not None and len(records) > 1
        if settings.script is None or not is_resident or len(failed) in (0, len(records)):
            return False
        self.state.end_turns(failed_beside(", ".join(str(record.size) for record in failed)))
        return True

    def _room(self, records: list[PassRecord]) -> Callable[[int], bool] | None:
        """Asked whether the other launches of a script fit beside the first one."""
        if self.state.settings.script is None:
            return None
        first, *others = records

        def fits(used_bytes: int) -> bool:
            num_more = sum(record.size for record in others)
            room = have_room(used_bytes, first.size, num_more, available_memory_bytes())
            if not room:
                self.state.end_turns(BY_MEMORY)
            return room

        return fits

    def _begin(self, record: PassRecord) -> WatchedPass:
        state = self.state
        paths = state.paths.of_pass(record.id)
        job = state.job(record)
        make_pass_folders(paths)
        record.status = Status.RUNNING
        record.started_at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        record.command = mask_command(state.launcher.command(job))
        record.environment = {k: mask_value(k, v) for k, v in sorted(job.environment.items())}
        plan_of(state.settings, record).write(paths.plan)
        state.save()
        state.progress.pass_started(record)
        return watch_pass(
            Watched(
                record=record,
                paths=paths,
                manifest=state.manifest,
                settings=state.settings,
                save=state.save,
                on_stall=lambda stall: state.progress.stalled(record, stall),
                warn_s=(
                    resident_warn_s(state.settings.options.stall_warn_s)
                    if state.takes_turns(record)
                    else state.settings.options.stall_warn_s
                ),
            )
        )

    def _launch(self, record: PassRecord, watched: WatchedPass) -> Launch:
        state = self.state
        job, paths = state.job(record), state.paths.of_pass(record.id)

        def look() -> int:
            seen = watched.look()
            state.progress.pass_progressed(record, watched.progress)
            return seen

        return Launch(
            job=job,
            command=state.launcher.command(job),
            environment={**inherited_environment(state.environment), **job.environment},
            paths=PassPaths(paths.folder.absolute()),
            watch=Watch(
                progress=look,
                timeout_s=state.settings.options.timeout_s,
                must_end=lambda: watched.must_end,
                have_exited=lambda: watched.have_exited,
                again=watched.again,
            ),
            is_on_this_host=is_on_this_host(state.settings),
        )

    def _end(self, record: PassRecord, watched: WatchedPass, outcome: LaunchOutcome) -> None:
        record.exit_code = outcome.exit_code
        watched.settle(outcome)
        # Beside others a script may hang that does not by itself.
        is_alone = self.state.settings.script is None or not self.state.takes_turns(record)
        self.state.given_up.note(record, hung=outcome.hung and is_alone)
        if record.status == Status.FAILED:
            # Raise where the disk is full, and add that to the failures of the pass.
            try:
                require_space(self.state.paths.folder)
            except StorageError as error:
                for segment in record.segments:
                    if segment.failure is not None:
                        reason = f"{segment.failure.reason}; {error.message.rstrip('.')}"
                        segment.failure = replace(segment.failure, reason=reason)
                raise
