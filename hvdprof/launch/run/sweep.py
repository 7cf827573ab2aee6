"""Running a design pass by pass; the manifest is up to date after every one of them."""

import contextlib
import datetime as dt
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from hvdprof.errors import InterruptedRunError, StorageError, SweepIncompleteError
from hvdprof.launch.launchers.launch_job import Job, Launcher
from hvdprof.launch.plan.design import hosts_argument
from hvdprof.launch.plan.environment import (
    RECORDER_DIR,
    inherited_environment,
    names_to_pass_on,
    pass_environment,
)
from hvdprof.launch.plan.preflight import require_space
from hvdprof.launch.plan.resident_memory import have_room
from hvdprof.launch.plan.settings import BenchSettings
from hvdprof.launch.plan.turn_plan import BY_MEMORY, NEVER_STOOD, STOOD_APART, failed_beside
from hvdprof.launch.plan.workload import program_of
from hvdprof.launch.processes.interruption import interruptible
from hvdprof.launch.processes.launch_process import Launch, Outcome, Watch, end_marked, run_launcher
from hvdprof.launch.run.attempts import GivenUp, split_unfinished
from hvdprof.launch.run.disk_reserve import hold_disk_reserve, release_disk_reserve
from hvdprof.launch.run.pass_plan import (
    make_folder,
    make_pass_folders,
    plan_of,
    planned_segments,
)
from hvdprof.launch.run.repeats import LookAtRun, Repeats
from hvdprof.launch.run.run_lock import exclusive_run
from hvdprof.launch.run.session_passes import place_after, recover_sessions
from hvdprof.launch.run.sweep_observer import SweepObserver
from hvdprof.launch.run.watched_pass import Watched, WatchedPass, watch_pass
from hvdprof.launch.turns.resident_launch import ResidentLaunch
from hvdprof.launch.turns.resident_launches import run_residents
from hvdprof.machine.install.build_tools import available_memory_bytes
from hvdprof.machine.load import CpuUse
from hvdprof.machine.mpi import Mpi
from hvdprof.rundir.layout import PassPaths, RunPaths
from hvdprof.rundir.manifest import Manifest, Mode, PassRecord, Status
from hvdprof.rundir.masking import mask_command, mask_value


@dataclass(slots=True, kw_only=True)
class Sweep:
    """One run of a design into its run directory.

    ``look`` is needed where the settings have a precision or a budget.
    """

    settings: BenchSettings
    manifest: Manifest
    paths: RunPaths
    launcher: Launcher
    mpi: Mpi | None
    observer: SweepObserver
    environment: dict[str, str]
    program: Callable[[BenchSettings, Path], tuple[str, ...]] = program_of
    run_launch: Callable[[Launch], Outcome] = run_launcher
    look: LookAtRun | None = None
    _given_up: GivenUp = field(default_factory=GivenUp)
    _began: float = 0.0
    _waiting: deque[PassRecord] = field(default_factory=deque)
    _repeats: Repeats | None = None

    def job(self, record: PassRecord) -> Job:
        """What is launched for a pass; pure."""
        # Ranks on other hosts, and launchers that change the folder, need the whole path.
        paths = PassPaths(self.paths.of_pass(record.id).folder.absolute())
        return Job(
            size=record.size,
            program=self.program(self.settings, paths.plan),
            hosts=hosts_argument(self.settings, record.size),
            environment=pass_environment(self.settings, record, paths, self.mpi),
            passed_on=names_to_pass_on(self.environment),
            device=self.settings.device,
            engine=record.engine,
        )

    def run(self) -> None:
        """Run every pass that has no result yet.

        Raises:
            UsageError: Another process is measuring into the run directory.
            InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
            StorageError: The disk is full; what was measured is kept.
            SweepIncompleteError: All passes ran, but a segment has no result.
        """
        with interruptible(), self.opened():
            while self.advance():
                pass
        self.raise_if_failed()

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """A context in which ``advance`` runs passes; its end settles the status of the run.

        Raises:
            UsageError: Another process is measuring into the run directory.
        """
        make_folder(self.paths.folder)
        with exclusive_run(self.paths.folder):
            resume = self.manifest.resume_command(self.paths.folder)
            hold_disk_reserve(self.paths.disk_reserve)
            try:
                self._start()
                yield
            except InterruptedRunError as error:
                self._settle_status(Status.INTERRUPTED)
                error.hint = f"Resume with {resume}"
                raise
            except StorageError as error:
                # Where even that cannot be written, the earlier manifest shows what had begun.
                with contextlib.suppress(StorageError):
                    self._settle_status(Status.INTERRUPTED)
                error.hint = f"What was measured is kept. Free some space, then: {resume}"
                raise
            except BaseException:
                # Of another sweep as well, where several are open at once.
                with contextlib.suppress(StorageError):
                    self._settle_status(Status.INTERRUPTED)
                raise
            finally:
                self.observer.sweep_ended()
                release_disk_reserve(self.paths.disk_reserve)
            self._settle_status(Status.FAILED if self._failures() else Status.DONE)

    def raise_if_failed(self) -> None:
        """Check that every segment has a result.

        Raises:
            SweepIncompleteError: A segment has none.
        """
        if failures := self._failures():
            resume = self.manifest.resume_command(self.paths.folder)
            raise SweepIncompleteError(
                f"{failures} of {self._count()} measurements failed; the table shows why.",
                hint=f"Retry them with {resume}",
            )

    def _start(self) -> None:
        self._waiting = deque(self._open_passes())
        self.manifest.status = Status.RUNNING
        self.manifest.stop = None
        self._began = time.monotonic() - self.manifest.elapsed_s
        self._save()
        self.observer.sweep_started(list(self._waiting))
        self._repeats = self._planned_repeats()

    def advance(self) -> bool:
        """Run the next pass, or the next that are resident together; False where none is left.

        Raises:
            InterruptedRunError: Ctrl-C or SIGTERM.
            StorageError: The disk is full.
        """
        waiting = self._waiting
        while waiting or self._plan_repeat(self._repeats, waiting):
            records = self._next_passes(waiting)
            if self._repeats is not None and self._repeats.is_over_time(records[0]):
                for record in records:
                    self.manifest.passes.remove(record)
                continue
            records = [record for record in records if self._can_run(record)]
            if not records:
                continue
            require_space(self.paths.folder)
            self._launch_passes(records)
            retry = self._failed_beside_others(records)
            for record in reversed(records):
                rest = split_unfinished(record, self.manifest.passes, retry_failed=retry)
                if rest is not None:
                    self._insert_after(record, rest)
                    waiting.appendleft(rest)
            self._save()
            for record in records:
                self.observer.pass_ended(record)
            return True
        return False

    @property
    def upcoming_repeat(self) -> int | None:
        """The repeat of the next pass; None where none is planned."""
        return self._waiting[0].repeat if self._waiting else None

    def drop_rest(self) -> None:
        """Plan nothing more: what was measured is enough."""
        for record in self._waiting:
            self.manifest.passes.remove(record)
        self._waiting.clear()
        self._save()

    def _next_passes(self, waiting: deque[PassRecord]) -> list[PassRecord]:
        """Take the next pass; where launches take turns, those of its repeat with it."""
        first = waiting.popleft()
        taken = [first]
        if self._takes_turns(first):
            while waiting and self._takes_turns(waiting[0]) and waiting[0].repeat == first.repeat:
                taken.append(waiting.popleft())
        return taken

    def _takes_turns(self, record: PassRecord) -> bool:
        return self.settings.turn_s is not None and record.mode == Mode.THROUGHPUT

    def _can_run(self, record: PassRecord) -> bool:
        self._given_up.mark(record)
        can_run = any(segment.status == Status.PLANNED for segment in record.segments)
        if not can_run:
            record.status = Status.FAILED
        return can_run

    def _planned_repeats(self) -> Repeats | None:
        """What plans further repeats; None where the manifest holds all of them."""
        if not self.settings.stops_early:
            return None
        if self.look is None:
            raise ValueError("a run with a precision or a budget needs a look")
        return Repeats(self.settings, self.manifest, self.paths.folder, self.look)

    def _plan_repeat(self, repeats: Repeats | None, waiting: deque[PassRecord]) -> bool:
        """Add the passes of the next repeat, if there is one."""
        if repeats is None:
            return False
        self._save()
        passes = repeats.next()
        self.manifest.passes += passes
        waiting += passes
        self._save()
        if passes:
            self.observer.repeat_planned(passes)
        return bool(passes)

    def _open_passes(self) -> list[PassRecord]:
        """The passes to run; what an earlier run left unfinished becomes a new attempt.

        Sessions of elastic launches are never run again: what they recorded stays.
        """
        open_passes = []
        for record in self.manifest.passes:
            if record.status == Status.RUNNING:
                self._end_left_over(record)
        recover_sessions(self.manifest, self.paths, self.settings)
        for record in [record for record in self.manifest.passes if not record.session]:
            rest = split_unfinished(record, self.manifest.passes, retry_failed=True)
            if rest is not None:
                self._insert_after(record, rest)
                open_passes.append(rest)
            elif record.status == Status.PLANNED:
                open_passes.append(record)
        return open_passes

    def _end_left_over(self, record: PassRecord) -> None:
        """End a launch that still runs after the hvdprof that started it was killed."""
        recordings = PassPaths(self.paths.of_pass(record.id).folder.absolute()).recorder_folder
        end_marked(str(recordings), None, variable=RECORDER_DIR)

    def _insert_after(self, record: PassRecord, rest: PassRecord) -> None:
        self.manifest.passes.insert(place_after(self.manifest, record), rest)
        # The output of an elastic launch belongs to its sessions as well.
        if not record.segments and record.session is None:
            self.manifest.passes.remove(record)

    def _launch_passes(self, records: list[PassRecord]) -> None:
        """Run one pass, or resident ones together."""
        watched = [self._begin(record) for record in records]
        launches = [self._launch(*pair) for pair in zip(records, watched, strict=True)]
        num_together = 1
        turn_s = self.settings.turn_s
        try:
            if turn_s is not None and self._takes_turns(records[0]):
                residents = [
                    ResidentLaunch(
                        launch,
                        planned_segments(record),
                        turn_s,
                        stall_warn_s=self.settings.stall_warn_s,
                    )
                    for launch, record in zip(launches, records, strict=True)
                ]
                outcomes = run_residents(residents, self._room(records))
                uses = [resident.use for resident in residents]
                if not any(resident.ran_alone for resident in residents):
                    num_together = len(residents)
                if any(resident.stood_apart for resident in residents):
                    self._end_turns(STOOD_APART)
                elif any(resident.never_stood for resident in residents):
                    self._end_turns(NEVER_STOOD)
            else:
                use = CpuUse()
                use.start()
                outcomes = [self.run_launch(launches[0])]
                uses = [use.stop()]
        except BaseException:
            for one in watched:
                one.interrupt()
            raise
        for record, one, outcome, use_of_it in zip(records, watched, outcomes, uses, strict=True):
            if use_of_it is not None:
                record.steal_share = round(use_of_it.steal_share, 4)
                # Ranks that outlive their launcher would count as processes outside the pass.
                if outcome.exit_code == 0:
                    record.other_cpu_cores = round(use_of_it.other_cores, 3)
            # What resident launches take together is divided among them.
            record.duration_s = round(outcome.duration_s / num_together, 3)
            self._end(record, one, outcome)

    def _room(self, records: list[PassRecord]) -> Callable[[int], bool] | None:
        """Asked whether the other launches of a script fit beside the first one."""
        if self.settings.script is None:
            return None
        first, *others = records

        def fits(used_bytes: int) -> bool:
            num_more = sum(record.size for record in others)
            room = have_room(used_bytes, first.size, num_more, available_memory_bytes())
            if not room:
                self._end_turns(BY_MEMORY)
            return room

        return fits

    def _end_turns(self, reason: str) -> None:
        """Let launches run one after the other from here on."""
        self.settings = replace(self.settings, turn_s=None, no_turns=reason)
        self.manifest.settings |= {"turn_s": None, "no_turns": reason}

    def _failed_beside_others(self, records: list[PassRecord]) -> bool:
        """Whether launches of a script failed that may succeed by themselves; turns end then.

        Such launches write to the same file, or listen at the same port.
        """
        failed = [record for record in records if record.status == Status.FAILED]
        is_resident = self.settings.turn_s is not None and len(records) > 1
        if self.settings.script is None or not is_resident or len(failed) in (0, len(records)):
            return False
        self._end_turns(failed_beside(", ".join(str(record.size) for record in failed)))
        return True

    def _begin(self, record: PassRecord) -> WatchedPass:
        paths = self.paths.of_pass(record.id)
        self._prepare(record, paths)
        self.observer.pass_started(record)
        return watch_pass(
            Watched(
                record=record,
                paths=paths,
                manifest=self.manifest,
                settings=self.settings,
                save=self._save,
                on_stall=lambda stall: self.observer.stalled(record, stall),
            )
        )

    def _end(self, record: PassRecord, watched: WatchedPass, outcome: Outcome) -> None:
        record.exit_code = outcome.exit_code
        watched.settle(outcome)
        # Beside others a script may hang that does not by itself.
        is_alone = self.settings.script is None or not self._takes_turns(record)
        self._given_up.note(record, hung=outcome.hung and is_alone)
        if record.status == Status.FAILED:
            self._raise_if_disk_full(record)

    def _prepare(self, record: PassRecord, paths: PassPaths) -> None:
        job = self.job(record)
        make_pass_folders(paths)
        record.status = Status.RUNNING
        record.started_at = _now()
        record.command = mask_command(self.launcher.command(job))
        record.environment = {k: mask_value(k, v) for k, v in sorted(job.environment.items())}
        plan_of(self.settings, record).write(paths.plan)
        self._save()

    def _launch(self, record: PassRecord, watched: WatchedPass) -> Launch:
        job, paths = self.job(record), self.paths.of_pass(record.id)

        def look() -> int:
            seen = watched.look()
            self.observer.pass_progressed(record, watched.progress)
            return seen

        return Launch(
            job=job,
            command=self.launcher.command(job),
            environment={**inherited_environment(self.environment), **job.environment},
            paths=PassPaths(paths.folder.absolute()),
            watch=Watch(
                progress=look,
                timeout_s=self.settings.timeout_s,
                must_end=lambda: watched.must_end,
            ),
        )

    def _raise_if_disk_full(self, record: PassRecord) -> None:
        """Raise where the disk is full, and add that to the failures of the pass."""
        try:
            require_space(self.paths.folder)
        except StorageError as error:
            for segment in record.segments:
                if segment.failure is not None:
                    reason = f"{segment.failure.reason}; {error.message.rstrip('.')}"
                    segment.failure = replace(segment.failure, reason=reason)
            raise

    def _settle_status(self, status: Status) -> None:
        self.manifest.status = status
        self._save()

    def _save(self) -> None:
        if self._began:
            self.manifest.elapsed_s = round(time.monotonic() - self._began, 3)
        try:
            self.manifest.write(self.paths)
        except StorageError:
            if not release_disk_reserve(self.paths.disk_reserve):
                raise
            self.manifest.write(self.paths)

    def _failures(self) -> int:
        return sum(
            segment.status in (Status.FAILED, Status.PARTIAL)
            for record in self.manifest.passes
            for segment in record.segments
        )

    def _count(self) -> int:
        return sum(len(record.segments) for record in self.manifest.passes)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
