"""Running a design pass by pass; the manifest is up to date after every one of them."""

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hvdprof.errors import InterruptedRunError, StorageError, SweepIncompleteError
from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.plan.environment import RECORDER_DIR
from hvdprof.launch.plan.preflight import require_space
from hvdprof.launch.plan.workload import least_partial_steps
from hvdprof.launch.processes.interruption import interruptible
from hvdprof.launch.processes.marked_processes import end_marked
from hvdprof.launch.run.attempts import interrupt, split_unfinished
from hvdprof.launch.run.pass_launches import PassLaunches, make_folder
from hvdprof.launch.run.repeats import LookAtRun, Repeats
from hvdprof.launch.run.session_passes import place_after, recover_sessions
from hvdprof.launch.run.sweep_state import SweepState, hold_disk_reserve, release_disk_reserve
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Mode, PassRecord, Status
from hvdprof.rundir.run_lock import exclusive_run
from hvdprof.units import counted

LEAST_LAUNCHES = 2
"""Launches from which a result has an interval, where several are planned."""

_FAILED = (Status.FAILED, Status.PARTIAL)
_Cell = tuple[int, str]
"""Number of ranks and segment."""


def num_failed(passes: Iterable[PassRecord]) -> int:
    """Measurements that failed, whether their cell has a result by others or not."""
    return sum(segment.status in _FAILED for record in passes for segment in record.segments)


def cells_without_result(passes: Iterable[PassRecord]) -> int:
    """Cells of which a measurement failed and too few others are done.

    Throughput counts where it is measured, since the other launches only explain it. A cell needs
    as many launches as are planned, at most ``LEAST_LAUNCHES``. An elastic job is one measurement:
    it has no others that could stand for what failed.
    """
    statuses: dict[_Cell, dict[str, list[str]]] = {}
    elastic_failures = 0
    for record in passes:
        for segment in record.segments:
            if record.session is not None:
                elastic_failures += segment.status in _FAILED
                continue
            by_mode = statuses.setdefault((record.size, segment.segment.id), {})
            by_mode.setdefault(record.mode, []).append(segment.status)
    lacking = 0
    for by_mode in statuses.values():
        launches = by_mode.get(Mode.THROUGHPUT) or [
            status for all_ in by_mode.values() for status in all_
        ]
        needed = min(LEAST_LAUNCHES, len(launches))
        is_short = launches.count(Status.DONE) < needed
        lacking += is_short and any(launch in _FAILED for launch in launches)
    return lacking + elastic_failures


@contextlib.contextmanager
def opened_sweeps(sweeps: Sequence["Sweep"]) -> Iterator[None]:
    """A context in which sweeps advance; an interruption says how many launches have ended.

    Raises:
        UsageError: Another process is measuring into one of the run directories.
        InterruptedRunError: Ctrl-C or SIGTERM came within.
    """
    try:
        with interruptible(), contextlib.ExitStack() as opened:
            for sweep in sweeps:
                opened.enter_context(sweep.opened())
            yield
    except InterruptedRunError as error:
        passes = [record for sweep in sweeps for record in sweep.manifest.passes]
        ended = sum(record.status in (Status.DONE, *_FAILED) for record in passes)
        error.message = (
            f"Interrupted after {ended} of {counted(len(passes), 'launch')}. {error.message}"
        )
        raise


@dataclass(slots=True, kw_only=True)
class Sweep(SweepState):
    """One run of a design into its run directory.

    ``look`` is needed where the settings have a precision or a budget.
    """

    look: LookAtRun | None = None
    _waiting: deque[PassRecord] = field(default_factory=deque)
    _repeats: Repeats | None = None

    def run(self) -> None:
        """Run every pass that has no result yet.

        Raises:
            UsageError: Another process is measuring into the run directory.
            InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
            StorageError: The disk is full; what was measured is kept.
            SweepIncompleteError: All passes ran, but a cell has no result.
        """
        with opened_sweeps([self]):
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
        with exclusive_run(self.paths.folder) as self.manifest.writer:
            resume = self.manifest.resume_command(self.paths.folder)
            hold_disk_reserve(self.paths.disk_reserve)
            try:
                self._start()
                yield
            except InterruptedRunError as error:
                self.settle_status(Status.INTERRUPTED)
                error.hint = f"Resume with {resume}"
                raise
            except StorageError as error:
                # Where even that cannot be written, the earlier manifest shows what had begun.
                with contextlib.suppress(StorageError):
                    self.settle_status(Status.INTERRUPTED)
                advice = error.hint or "Free some space."
                error.hint = f"What was measured is kept. {advice} Then: {resume}"
                raise
            except BaseException:
                # Of another sweep as well, where several are open at once.
                with contextlib.suppress(StorageError):
                    self.settle_status(Status.INTERRUPTED)
                raise
            finally:
                self.progress.sweep_ended()
                release_disk_reserve(self.paths.disk_reserve)
            self.settle_status(Status.FAILED if self._num_lacking() else Status.DONE)

    def raise_if_failed(self) -> None:
        """Check that every cell has a result; single launches may have failed.

        Raises:
            SweepIncompleteError: A cell has none.
        """
        passes = self.manifest.passes
        if self._num_lacking():
            count = sum(len(record.segments) for record in passes)
            raise SweepIncompleteError(
                f"{num_failed(passes)} of {count} measurements failed; the table shows why.",
                hint=self.after_failure(),
            )

    def _num_lacking(self) -> int:
        """Cells without a result; of a function every failure, for its values are returned."""
        passes = self.manifest.passes
        return num_failed(passes) if self.settings.is_function else cells_without_result(passes)

    def _start(self) -> None:
        self._waiting = deque(self._open_passes())
        self.manifest.status = Status.RUNNING
        self.manifest.stop = None
        self.start_clock()
        self.save()
        self.progress.sweep_started(list(self._waiting))
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
            launches = PassLaunches(self)
            launches.run(records)
            retry = launches.failed_beside_others(records)
            for record in reversed(records):
                rest = split_unfinished(record, self.manifest.passes, retry_failed=retry)
                if rest is not None:
                    self._insert_after(record, rest)
                    waiting.appendleft(rest)
            self.save()
            for record in records:
                self.progress.pass_ended(record)
            return True
        return False

    @property
    def upcoming_repeat(self) -> int | None:
        """The repeat of the next pass; None where none is planned."""
        return self._waiting[0].repeat if self._waiting else None

    @property
    def upcoming(self) -> tuple[PassRecord, ...]:
        """The passes that are planned, in their order."""
        return tuple(self._waiting)

    def drop_rest(self) -> None:
        """Plan nothing more: what was measured is enough."""
        for record in self._waiting:
            self.manifest.passes.remove(record)
        self._waiting.clear()
        self.save()

    def _next_passes(self, waiting: deque[PassRecord]) -> list[PassRecord]:
        """Take the next pass; where launches take turns, those of its repeat with it."""
        first = waiting.popleft()
        taken = [first]
        if self.takes_turns(first):
            while waiting and self.takes_turns(waiting[0]) and waiting[0].repeat == first.repeat:
                taken.append(waiting.popleft())
        return taken

    def _can_run(self, record: PassRecord) -> bool:
        self.given_up.mark(record)
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
        self.save()
        passes = repeats.next()
        self.manifest.passes += passes
        waiting += passes
        self.save()
        if passes:
            self.progress.repeat_planned(passes)
        return bool(passes)

    def _open_passes(self) -> list[PassRecord]:
        """The passes to run; what an earlier run left unfinished becomes a new attempt.

        Sessions of elastic launches are never run again: what they recorded stays.
        """
        open_passes = []
        for record in self.manifest.passes:
            if record.status == Status.RUNNING:
                # End a launch whose hvdprof was killed; what all of its ranks have ended is done.
                paths = PassPaths(self.paths.of_pass(record.id).folder.absolute())
                end_marked(str(paths.recorder_folder), None, variable=RECORDER_DIR)
                if record.session is None:
                    progress = PassProgress(paths)
                    progress.update()
                    interrupt(record, progress, least_steps=least_partial_steps(self.settings))
        recover_sessions(self.manifest, self.paths, self.settings)
        for record in [record for record in self.manifest.passes if not record.session]:
            rest = split_unfinished(record, self.manifest.passes, retry_failed=True)
            if rest is not None:
                self._insert_after(record, rest)
                open_passes.append(rest)
            elif record.status == Status.PLANNED:
                open_passes.append(record)
        return open_passes

    def _insert_after(self, record: PassRecord, rest: PassRecord) -> None:
        self.manifest.passes.insert(place_after(self.manifest, record), rest)
        # The output of an elastic launch belongs to its sessions as well.
        if not record.segments and record.session is None:
            self.manifest.passes.remove(record)
