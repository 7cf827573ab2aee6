"""A pass whose launch is running: how far its ranks are, which stall, and how it ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hvdprof.launch.diagnose.explain import explain
from hvdprof.launch.diagnose.failure_evidence import (
    LastSeen,
    MemoryWatch,
    explain_last,
    fail_without_timeline,
    with_place,
    worker_ends,
)
from hvdprof.launch.diagnose.printed_errors import PrintedErrors, printed_tail
from hvdprof.launch.diagnose.rank_progress import EXITED_GRACE_S, PassProgress, RankProcesses
from hvdprof.launch.diagnose.stall import Stall
from hvdprof.launch.diagnose.stall_watch import StallWatch
from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.plan.workload import least_partial_steps
from hvdprof.launch.processes.launch_process import LaunchOutcome
from hvdprof.launch.run.attempts import interrupt, settle, starts_again
from hvdprof.launch.run.session_passes import (
    ElasticProgress,
    SessionStalls,
    add_sessions,
    end_sessions,
    refine_from_ranks,
    settle_sessions,
)
from hvdprof.rundir.failures.launcher_failures import Failure, FailureKind
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Manifest, PassRecord, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The pass that is watched.

    ``save`` writes the manifest; ``on_stall`` is called with each stall, from ``warn_s`` seconds
    on (0 for never).
    """

    record: PassRecord
    paths: PassPaths
    manifest: Manifest
    settings: Settings
    save: Callable[[], None]
    on_stall: Callable[[Stall], None]
    warn_s: float

    def stalls_of(self, paths: PassPaths, size: int) -> StallWatch:
        """The watch over that many ranks with those files."""
        return StallWatch(
            paths,
            size,
            warn_s=self.warn_s,
            kill_s=self.settings.options.stall_kill_s,
            on_stall=self.on_stall,
        )


class WatchedPass(Protocol):
    """The pass of a launch from its start to its end."""

    @property
    def progress(self) -> PassProgress:
        """How far the ranks are, as of the latest look."""

    @property
    def must_end(self) -> bool:
        """Whether a stall ends the launch."""

    @property
    def have_exited(self) -> bool:
        """Whether every rank has exited a while ago, so that nothing is left to wait for."""

    def look(self) -> int:
        """Look at all ranks once; a number that grows when any makes progress."""

    def again(self, exit_code: int) -> bool:
        """Whether to start the launch once more, whose launcher has ended with that code."""

    def interrupt(self) -> None:
        """The user has ended the launch: what all ranks had ended is done, the rest is open."""

    def settle(self, outcome: LaunchOutcome) -> None:
        """The launch has ended: give the pass and its segments their status, and say why."""


def watch_pass(watched: Watched) -> WatchedPass:
    """Begin to watch a pass that is about to start, elastic or not."""
    return FixedPass(watched) if watched.record.session is None else ElasticPass(watched)


class FixedPass:
    """A launch of ranks that stay the same, as ``WatchedPass``."""

    def __init__(self, watched: Watched) -> None:
        self._of = watched
        self._memory = MemoryWatch()
        self._processes = RankProcesses(watched.record.num_processes)
        self._stalls = watched.stalls_of(watched.paths, watched.record.num_processes)
        self.progress = PassProgress(watched.paths)

    @property
    def must_end(self) -> bool:
        """Whether a stall ends the launch."""
        return self._stalls.must_end

    @property
    def have_exited(self) -> bool:
        """Whether every rank has exited a while ago, so that nothing is left to wait for."""
        return self._processes.have_exited

    def look(self) -> int:
        """Look at all ranks once; a number that grows when any makes progress."""
        seen = self.progress.update()
        self._stalls.look()
        self._processes.look(self.progress.ranks)
        return seen

    def again(self, exit_code: int) -> bool:
        """Whether to start the launch once more, of which no rank has reported in."""
        self.progress.update()
        has_begun = bool(self.progress.ranks or self.progress.notice)
        return not has_begun and starts_again(self._of.record, self._of.paths, exit_code)

    def interrupt(self) -> None:
        """The user has ended the launch: what all ranks had ended is done, the rest is open."""
        self.progress.update()
        interrupt(
            self._of.record,
            self.progress,
            least_steps=least_partial_steps(self._of.settings),
            stall=self._stalls.cut_off(),
        )
        refine_from_ranks(self._of.record, self._of.manifest, self.progress, self._of.settings)
        self._stalls.report_cut_off()
        self._stalls.finish()

    def settle(self, outcome: LaunchOutcome) -> None:
        """The launch has ended: give the pass and its segments their status, and say why."""
        self.progress.update()
        of = self._of
        failure = _stated_failure(outcome, self._stalls)
        if outcome.outlived_by:
            of.manifest.warnings.append(_outlived_text(of.record, outcome.outlived_by))
        if failure is None and self._went_wrong(outcome):
            failure = with_place(
                _explained(of, outcome, self.progress, self._stalls, self._processes.stopped_s),
                self.progress,
                self._memory.num_ended(),
            )
        self._stalls.finish()
        settle(of.record, self.progress, failure, least_steps=least_partial_steps(of.settings))
        refine_from_ranks(of.record, of.manifest, self.progress, of.settings)
        fail_without_timeline(of.record, of.paths, self.progress, printed_tail(of.paths.stderr))

    def _went_wrong(self, outcome: LaunchOutcome) -> bool:
        if not outcome.outlived_by:
            return _went_wrong(outcome)
        # The exit codes of the ranks are unknown then.
        is_complete = all(state.finished for state in self.progress.ranks.values())
        errors = PrintedErrors.of(printed_tail(self._of.paths.stderr))
        return not is_complete or errors.first_cause() is not None


class ElasticPass:
    """A launch whose ranks come and go in sessions, as ``WatchedPass``."""

    def __init__(self, watched: Watched) -> None:
        self._of = watched
        self.progress = ElasticProgress(watched.paths)
        self._stalls = SessionStalls(self.progress, watched.paths, watched.stalls_of)

    @property
    def must_end(self) -> bool:
        """Whether a stall ends the launch."""
        return self._stalls.must_end

    @property
    def have_exited(self) -> bool:
        """Never: the ranks of a session that is over are followed by others."""
        return False

    def look(self) -> int:
        """Look at the latest ranks once; a number that grows when any makes progress."""
        seen = self.progress.update()
        if add_sessions(self._of.manifest, self._of.record, self.progress):
            self._of.save()
        self._stalls.look()
        return seen

    def again(self, exit_code: int) -> bool:
        """Never: horovodrun itself replaces the workers of an elastic job."""
        return False

    def interrupt(self) -> None:
        """The user has ended the launch: its sessions are done, it is to be started again."""
        self.progress.update()
        self._stalls.report_cut_off()
        self._stalls.finish()
        record = self._of.record
        end_sessions(self._of.manifest, record, self.progress, self._of.settings)
        for segment in record.segments:
            segment.status = Status.INTERRUPTED
        record.status = Status.INTERRUPTED

    def settle(self, outcome: LaunchOutcome) -> None:
        """The launch has ended: give it and its sessions their status, and say why."""
        self.progress.update()
        of = self._of
        of.record.worker_ends = worker_ends(
            printed_tail(of.paths.stdout), printed_tail(of.paths.stderr)
        )
        failure = _stated_failure(outcome, self._stalls)
        if failure is None and outcome.exit_code != 0 and len(self.progress.sessions) > 1:
            failure = explain_last(of.record.worker_ends)
        if failure is None and _went_wrong(outcome):
            failure = _explained(of, outcome, self.progress, self._stalls, {})
        self._stalls.finish()
        settle_sessions(of.manifest, of.record, self.progress, of.settings, failure)


def _stated_failure(outcome: LaunchOutcome, stalls: StallWatch | SessionStalls) -> Failure | None:
    # A launch that ended by itself in the meantime was not ended for a stall.
    if outcome.hung:
        stalls.report_cut_off()
    return outcome.failure or (stalls.failure() if outcome.hung else None)


def _went_wrong(outcome: LaunchOutcome) -> bool:
    return outcome.hung or outcome.exit_code != 0


def _outlived_text(record: PassRecord, names: Sequence[str]) -> str:
    return (
        f"{record.id}: all ranks had exited, but {', '.join(names)} kept their output open. The "
        f"launch was ended {EXITED_GRACE_S:g} s later, with all that the script had left running."
    )


def _explained(
    of: Watched,
    outcome: LaunchOutcome,
    progress: PassProgress,
    stalls: StallWatch | SessionStalls,
    stopped_s: Mapping[int, float],
) -> Failure:
    stall = stalls.cut_off()
    failure = explain(
        outcome,
        progress,
        stdout=printed_tail(of.paths.stdout),
        stderr=printed_tail(of.paths.stderr),
        timeout_s=of.settings.options.timeout_s,
        seen=LastSeen(
            stopped_s=stopped_s, stall=stall, blocked=stalls.blocked(), unequal=stalls.unequal()
        ),
    )
    if stall is not None and failure.kind in (FailureKind.HUNG, FailureKind.STALLED):
        # Not where a rank fails by itself while another one waits for it.
        stalls.report_cut_off()
    return failure
