"""What a sweep measures, how far it is, what it reserves of the disk, and what shows that."""

import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from hvdprof.errors import StorageError
from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall
from hvdprof.launch.launchers.launch_job import Job, Launcher
from hvdprof.launch.plan.environment import names_to_pass_on, pass_environment
from hvdprof.launch.plan.hosts import hosts_argument
from hvdprof.launch.plan.options import TORCHRUN, arguments_of
from hvdprof.launch.plan.preflight import AUTO
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.plan.workload import program_of
from hvdprof.launch.processes.launch_process import Launch, LaunchOutcome, run_launcher
from hvdprof.launch.run.attempts import GivenUp
from hvdprof.machine.mpi import Mpi
from hvdprof.rundir.failures.known_failures import USE_TORCHRUN, known_cause
from hvdprof.rundir.layout import PassPaths, RunPaths
from hvdprof.rundir.manifest import Manifest, Mode, PassRecord, Status
from hvdprof.rundir.masking import mask_command
from hvdprof.rundir.written_file import append_run_bytes

RESERVE_BYTES = 1_000_000


class SweepProgress(Protocol):
    """Shows the progress of a sweep."""

    def sweep_started(self, passes: list[PassRecord]) -> None:
        """The sweep begins; the passes that are to run, in their order."""

    def repeat_planned(self, passes: list[PassRecord]) -> None:
        """More passes are to run, in their order: the result is not yet known well enough."""

    def pass_started(self, record: PassRecord) -> None:
        """A pass is launched."""

    def pass_progressed(self, record: PassRecord, progress: PassProgress) -> None:
        """Called several times per second while a pass runs."""

    def stalled(self, record: PassRecord, stall: Stall) -> None:
        """Ranks of a pass are blocked on a stalled rank; called once per stall."""

    def pass_ended(self, record: PassRecord) -> None:
        """A pass has ended, well or not; its record says how."""

    def sweep_ended(self) -> None:
        """The sweep is over; called once, also after an interruption or an error."""


class JoinedProgress:
    """Shows several sweeps as one: it begins and ends with the last of them.

    Attributes:
        num_sweeps: Known at the latest when the first of them begins.
    """

    def __init__(self, shown: SweepProgress, num_sweeps: int) -> None:
        self._shown = shown
        self.repeat_planned = shown.repeat_planned
        self.pass_started = shown.pass_started
        self.pass_progressed = shown.pass_progressed
        self.stalled, self.pass_ended = shown.stalled, shown.pass_ended
        self.num_sweeps = num_sweeps
        self._passes: list[list[PassRecord]] = []
        self._num_ended = 0

    def sweep_started(self, passes: list[PassRecord]) -> None:
        """Show the passes of all once all have begun."""
        self._passes.append(passes)
        if len(self._passes) == self.num_sweeps:
            rounds = zip(*self._passes, strict=False)
            self._shown.sweep_started([record for records in rounds for record in records])

    def sweep_ended(self) -> None:
        """Show the end of all once."""
        self._num_ended += 1
        if self._num_ended == len(self._passes) == self.num_sweeps:
            self._shown.sweep_ended()


class SilentProgress:
    """Shows no progress of a sweep."""

    def _nothing(self, *_seen: object, **_named: object) -> None:
        return None

    sweep_started = repeat_planned = pass_started = pass_progressed = _nothing
    stalled = pass_ended = sweep_ended = _nothing


def hold_disk_reserve(path: Path) -> None:
    """Take space on the disk until ``release_disk_reserve``; none where the disk is full."""
    try:
        # File systems that compress would reserve nothing for zeros.
        with append_run_bytes(path) as file:
            file.write(os.urandom(RESERVE_BYTES))
    except OSError:
        # The run checks the space itself and reports that there is none.
        release_disk_reserve(path)


def release_disk_reserve(path: Path) -> bool:
    """Give the reserve back; whether there was one.

    Raises:
        OSError: The file cannot be removed.
    """
    was_there = path.exists()
    path.unlink(missing_ok=True)
    return was_there


@dataclass(slots=True, kw_only=True)
class SweepState:
    """The settings and the manifest of one run, which change while its passes are measured.

    ``given_up`` are the cells that are not tried again.
    """

    settings: Settings
    manifest: Manifest
    paths: RunPaths
    launcher: Launcher
    mpi: Mpi | None
    progress: SweepProgress
    environment: dict[str, str]
    program: Callable[[Settings, Path], tuple[str, ...]] = program_of
    run_launch: Callable[[Launch], LaunchOutcome] = run_launcher
    given_up: GivenUp = field(default_factory=GivenUp)
    _began: float = 0.0

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

    def after_failure(self) -> str:
        """What to do once launches have failed: retry them, or start again after a correction.

        Where nothing was measured and the same would fail again, it is the whole command, with
        torchrun for a script that needs it; secrets are masked.
        """
        segments = [segment for record in self.manifest.passes for segment in record.segments]
        causes = [known_cause(segment.failure.reason) for segment in segments if segment.failure]
        lasting = [cause for cause in causes if cause is not None and cause.fails_again]
        options = self.settings.options
        if not isinstance(options, RunOptions) or len(lasting) < len(segments):
            return f"Retry them with {self.manifest.resume_command(self.paths.folder)}"
        if all(cause.action == USE_TORCHRUN for cause in lasting):
            options = replace(options, launcher=TORCHRUN, controller=AUTO)
        words = mask_command(arguments_of(replace(options, output=None)))
        return f"Correct it, then: hvdprof run {shlex.join(words)}"

    def takes_turns(self, record: PassRecord) -> bool:
        """Whether a pass is resident together with others of its repeat."""
        return self.settings.turn_s is not None and record.mode == Mode.THROUGHPUT

    def end_turns(self, reason: str) -> None:
        """Let launches run one after the other from here on."""
        self.settings = replace(self.settings, turn_s=None, no_turns=reason)
        self.manifest.settings |= {"turn_s": None, "no_turns": reason}

    def start_clock(self) -> None:
        """Count the time from here on to that of earlier runs into the directory."""
        self._began = time.monotonic() - self.manifest.elapsed_s

    def settle_status(self, status: Status) -> None:
        """Set the status of the run and save it.

        Raises:
            StorageError: The disk is full.
        """
        self.manifest.status = status
        self.save()

    def save(self) -> None:
        """Write the manifest; where the disk is full, into the space reserved for it.

        Raises:
            StorageError: The disk is full, and nothing is reserved.
        """
        if self._began:
            self.manifest.elapsed_s = round(time.monotonic() - self._began, 3)
        try:
            self.manifest.write(self.paths)
        except StorageError:
            if not release_disk_reserve(self.paths.disk_reserve):
                raise
            self.manifest.write(self.paths)
