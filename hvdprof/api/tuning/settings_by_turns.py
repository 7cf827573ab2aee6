"""Settings of one job that run by turns, each in a run directory of its own."""

import math
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hvdprof.analyze.compare.cell_changes import changes_of
from hvdprof.analyze.compare.sides import SideCell, cells_of_run
from hvdprof.analyze.tune.finals import LaunchCount, log_times
from hvdprof.analyze.tune.racing import PRESENT
from hvdprof.api.measured_runs import plan_measurement
from hvdprof.api.measurement import Measurement
from hvdprof.api.runs import analyze_run, load_run
from hvdprof.errors import EnvironmentNotReadyError, UnreadableInputError, UsageError
from hvdprof.ingest.load import load_throughput
from hvdprof.launch.plan.tune_options import Options, variant_options
from hvdprof.launch.run.interleaved_sweeps import run_race
from hvdprof.launch.run.script_launcher import Tools
from hvdprof.launch.run.sweep import Sweep
from hvdprof.launch.run.sweep_state import JoinedProgress, SweepProgress
from hvdprof.model.results.comparison import FINAL_LOSS
from hvdprof.model.results.tuning import Candidate, Estimate
from hvdprof.rundir.failures.launcher_failures import Failure, FailureKind
from hvdprof.rundir.manifest import Manifest, Mode, PassRecord, Status

MOST_FAILURES = 2
"""A setting that fails in so many launches is given up."""

_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class JobToTune:
    """A job as it is launched.

    Attributes:
        present: The options of its present setting.
        num_ranks: The number of ranks that is tuned.
        tools: Horovod and MPI.
        progress: Shows the progress of launches.
    """

    present: Options
    num_ranks: int
    tools: Tools
    progress: SweepProgress


class SettingsByTurns:
    """The present setting and others, a launch of each per round.

    Attributes:
        times: By setting and round, the logarithm of the time per sample.
        refused: Settings that cannot run here, by name, and why.
    """

    def __init__(
        self, job: JobToTune, settings: Mapping[str, Candidate], folder: Path, *, most_rounds: int
    ) -> None:
        """Prepare the runs; nothing is written. A setting that cannot run is refused.

        Args:
            job: The job and its present setting.
            settings: The others, by name.
            folder: Holds their run directories.
            most_rounds: The most launches of each.

        Raises:
            UsageError: The present setting cannot be used.
            EnvironmentNotReadyError: This machine cannot run it.
        """
        self.times: dict[str, Mapping[int, float]] = {}
        self.refused: dict[str, str] = {}
        self._joined = JoinedProgress(job.progress, 0)
        self._runs: dict[str, Measurement] = {}
        pair = uuid.uuid4().hex
        every = {PRESENT: Candidate(name=PRESENT), **settings}
        for place, (name, one) in enumerate(every.items()):
            try:
                chosen = variant_options(
                    job.present,
                    one,
                    folder / _file_name(place, name),
                    num_ranks=job.num_ranks,
                    repeats=most_rounds,
                )
                run = plan_measurement(chosen, progress=self._joined, tools=job.tools)
            except (UsageError, EnvironmentNotReadyError) as error:
                if name == PRESENT:
                    raise
                self.refused[name] = error.message
                continue
            # Reference models have a trace in any case; here all launches are alike.
            run.manifest.passes = [
                record for record in run.manifest.passes if record.mode == Mode.THROUGHPUT
            ]
            run.manifest.paired_by = pair
            self._runs[name] = run
        self._joined.num_sweeps = len(self._runs)

    def run(self, after_round: Callable[[int], Collection[str]]) -> None:
        """Make the folders, ready the hosts and run the rounds.

        Args:
            after_round: Asked after every round, with its number: the names of the settings that
                run again; none does where the present one is not among them.

        Raises:
            EnvironmentNotReadyError: A host cannot run the present setting.
            StorageError: A folder cannot be made, or the disk is full.
            InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
        """
        for run in self._runs.values():
            run.make_folder()
        self._ready_hosts()
        sweeps = {name: run.started_sweep() for name, run in self._runs.items()}
        racing = set(sweeps)

        def dropped(number: int) -> list[Sweep]:
            self.read(racing)
            going = set(after_round(number)) & racing
            going = going if PRESENT in going else set()
            gone = racing - going
            racing.intersection_update(going)
            left = [record for name in racing for record in sweeps[name].upcoming]
            if gone and left:
                self._joined.repeat_planned(sorted(left, key=lambda record: record.repeat))
            return [sweeps[name] for name in gone]

        run_race(list(sweeps.values()), dropped)

    def _ready_hosts(self) -> None:
        """Ready the hosts for each setting; one that a host cannot run is refused.

        Raises:
            EnvironmentNotReadyError: A host cannot run the present setting.
            StorageError: A run directory cannot be written.
        """
        for name, run in list(self._runs.items()):
            try:
                run.ready_hosts()
            except EnvironmentNotReadyError as error:
                if name == PRESENT:
                    raise
                self.refused[name] = error.message
                del self._runs[name]
        self._joined.num_sweeps = len(self._runs)

    def read(self, names: Collection[str] | None = None) -> None:
        """Read the times of some settings, all when not given, from their run directories."""
        for name in self._runs if names is None else names:
            run = self._runs[name]
            try:
                found = log_times(load_throughput(run.folder))
            except UnreadableInputError:
                # Without a manifest its folder could not be made: nothing was measured.
                found = {}
            failed = failed_repeats(run.manifest)
            self.times[name] = {
                repeat: time for repeat, time in found.items() if repeat not in failed
            }

    @property
    def launch_s(self) -> float:
        """Mean seconds of the launches that ended well; NaN before the first."""
        lengths = [
            record.duration_s
            for run in self._runs.values()
            for record in run.manifest.passes
            if record.status == Status.DONE and record.duration_s
        ]
        return sum(lengths) / len(lengths) if lengths else math.nan

    def reason(self, name: str) -> str:
        """Why a setting failed first; empty where it did not."""
        if name in self.refused:
            return self.refused[name]
        failures = [failure for _, failure in _failed(self._runs[name].manifest)]
        # A launch that is not retried says nothing of the cause.
        failures.sort(key=lambda failure: failure.kind == FailureKind.NOT_RETRIED)
        return ": ".join([failures[0].reason, *failures[0].lines[-1:]]) if failures else ""

    def is_given_up(self, name: str) -> bool:
        """Whether a setting is refused, or failed too often; no hang is retried."""
        return name in self.refused or self.launches(name).num_failed >= MOST_FAILURES

    def launches(self, name: str) -> LaunchCount:
        """The launches of a setting that ended, and those of them that failed."""
        return LaunchCount() if name in self.refused else launch_count(self._runs[name].manifest)

    def loss_change(self, name: str) -> Estimate | None:
        """The relative change of the final loss; None where it is not recorded."""
        if name in self.refused:
            return None
        try:
            cells = [self._cell(setting) for setting in (PRESENT, name)]
        except UnreadableInputError:
            return None
        first, second = cells
        if first is None or second is None:
            return None
        changes = changes_of(first, second, is_paired=False)
        found = [change.change.interval() for change in changes if change.metric is FINAL_LOSS]
        if not found:
            return None
        return Estimate(*(math.expm1(end) for end in (found[0].value, found[0].low, found[0].high)))

    def _cell(self, name: str) -> SideCell | None:
        """The only cell of a setting; None without a result."""
        # The run directory of a setting.
        cells = cells_of_run(analyze_run(load_run(self._runs[name].folder)))
        return next(iter(cells.values()), None)


def launch_count(manifest: Manifest) -> LaunchCount:
    """The launches of a run that ended by themselves, and those of them that failed."""
    num_failed = len(list(_failed(manifest)))
    done = [
        segment
        for record in manifest.passes
        for segment in record.segments
        if segment.status == Status.DONE
    ]
    return LaunchCount(len(done) + num_failed, num_failed)


def failed_repeats(manifest: Manifest) -> frozenset[int]:
    """The repeats with a failed launch; their times do not count, even if steps were recorded."""
    return frozenset(record.repeat for record, _ in _failed(manifest))


def _failed(manifest: Manifest) -> Iterator[tuple[PassRecord, Failure]]:
    """What failed; a launch that the user ended did not."""
    return (
        (record, segment.failure)
        for record in manifest.passes
        for segment in record.segments
        if segment.status != Status.DONE
        and segment.failure is not None
        and segment.failure.kind != FailureKind.INTERRUPTED
    )


def _file_name(place: int, name: str) -> str:
    """A folder name that sorts as the settings do."""
    if name == PRESENT:
        return PRESENT
    return f"{place:02d}-{re.sub(r'[^A-Za-z0-9_.=-]+', '-', name)[:_LONGEST_NAME]}"
