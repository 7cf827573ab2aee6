"""Why a pass failed: the rank that went first, how it ended, and the lines that show it.

The launcher's own report is not enough: ranks that lose a peer raise too, and `horovodrun` names
whichever process ended first, which often is such a victim.
"""

import signal
from collections.abc import Callable

from hvdprof import units
from hvdprof.launch.diagnose.failure_evidence import NOTHING_SEEN, Evidence, LastSeen, signal_number
from hvdprof.launch.diagnose.printed_errors import PrintedErrors
from hvdprof.launch.diagnose.rank_progress import PassProgress, first_stack, positions, rank_behind
from hvdprof.launch.processes.launch_process import LaunchOutcome
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.failures.known_failures import ProcessExit, process_exits, with_known_cause
from hvdprof.rundir.failures.launcher_failures import NO_PROGRESS, UNEQUAL, Failure, FailureKind
from hvdprof.rundir.recording.stall_format import UNEQUAL_FIX

LEAST_STOPPED_S = 10.0
"""A rank that a signal stopped for less is no reason for its peers to fail: Gloo waits 30 s."""

_BEFORE_STEPS = (
    "to do: raise --timeout where imports, data or compilation take that long; else look for a "
    "rank that did not start, or waits for others before its first step."
)


def explain(
    outcome: LaunchOutcome,
    progress: PassProgress,
    *,
    stdout: str,
    stderr: str,
    timeout_s: float,
    seen: LastSeen = NOTHING_SEEN,
) -> Failure:
    """The failure of a pass, from how its launcher ended and what its ranks left behind.

    Args:
        outcome: How the launcher ended.
        progress: How far the ranks got.
        stdout: The end of what was printed.
        stderr: The end of what was printed as errors.
        timeout_s: The time without progress after which a launch counts as hung.
        seen: What was seen of the ranks; the sentence of the stall is in the reason where it is
            why the launch failed.
    """
    evidence = Evidence(
        outcome=outcome,
        progress=progress,
        errors=PrintedErrors.of(stderr),
        output=PrintedErrors.of(stdout),
        ended=first_exit(stderr) or first_exit(stdout),
        timeout_s=timeout_s,
        seen=seen,
    )
    return next(failure for rule in _RULES if (failure := rule(evidence)) is not None)


def _hung(evidence: Evidence) -> Failure | None:
    if not evidence.outcome.hung:
        return None
    why = f"{NO_PROGRESS} for {units.seconds(evidence.timeout_s)}"
    stall, blocked = evidence.seen.stall, evidence.seen.blocked
    if stall is not None:
        sentence, *lines = stall.lines()
        return Failure(
            reason=f"{why}; {sentence}", kind=FailureKind.HUNG, rank=stall.late_rank, lines=lines
        )
    if not evidence.progress.ranks and (known := evidence.launcher_failure) is not None:
        return Failure(
            reason=f"{why}; {known.sentence()}",
            kind=FailureKind.HUNG,
            lines=evidence.errors.last_lines(None),
        )
    lines = first_stack(blocked) or evidence.errors.without_own_signal().last_lines(None)
    if not evidence.progress.ranks:
        lines = [*lines, _BEFORE_STEPS]
    return Failure(
        reason=f"{why}; {positions(evidence.progress, blocked)}",
        kind=FailureKind.HUNG,
        rank=rank_behind(evidence.progress),
        lines=lines,
    )


def _not_started(evidence: Evidence) -> Failure | None:
    if evidence.ended is None or not evidence.ended.why_not_started:
        return None
    return Failure(
        reason=f"{_named(evidence.rank)} could not be started: {evidence.ended.why_not_started}",
        rank=evidence.rank,
        lines=evidence.errors.last_lines(None),
    )


def _launcher_failed(evidence: Evidence) -> Failure | None:
    """A launcher that ended before a rank reported in: the causal line, not the last one."""
    known = evidence.launcher_failure
    raised = evidence.errors.first_cause()
    # An exception that carries the tag of a rank is the script's own.
    is_of_rank = raised is not None and raised[0] is not None
    if known is None or evidence.progress.ranks or is_of_rank:
        return None
    return Failure(
        reason=f"no rank reported in: {known.sentence()}",
        exit_code=evidence.outcome.exit_code,
        lines=evidence.errors.last_lines(None) or evidence.output.last_lines(None),
    )


def _exited_improperly(evidence: Evidence) -> Failure | None:
    """A rank that left MPI without a word; what its launcher prints about that is no cause."""
    if evidence.ended is None or not evidence.ended.is_improper or evidence.errors.first_cause():
        return None
    return Failure(
        reason=f"{_named(evidence.rank)} exited without MPI_Finalize, as by os._exit(0), while "
        "others were in the job (it printed no error; look for what ends it early)",
        rank=evidence.rank,
        lines=evidence.errors.last_lines_of(evidence.rank),
    )


def _was_stopped(evidence: Evidence) -> Failure | None:
    """Peers that timed out are the first that fail; the rank that was stopped is the cause."""
    lost = evidence.errors.lost_peer_ranks()
    stopped_s = {
        rank: seconds
        for rank, seconds in evidence.seen.stopped_s.items()
        if seconds >= LEAST_STOPPED_S and set(lost) - {rank}
    }
    if not stopped_s:
        return None
    rank = max(stopped_s, key=stopped_s.__getitem__)
    others = [other for other in lost if other != rank]
    return Failure(
        reason=f"rank {rank} was stopped by a signal for {units.seconds(stopped_s[rank])} or more, "
        f"and {ranks_named(others)} gave up waiting: {evidence.errors.lost_peer(others[0])}",
        rank=rank,
        lines=evidence.errors.last_lines(others[0]),
    )


def _gave_up_waiting(evidence: Evidence) -> Failure | None:
    """Gloo or NCCL timed out in a stall: the rank that raised is not the one that hangs."""
    stall, timed_out = evidence.seen.stall, evidence.errors.timed_out()
    if stall is None:
        return None
    if timed_out is not None:
        rank, message = timed_out
    elif evidence.ended_by == signal.SIGABRT:
        rank, message = evidence.rank, "it was ended by SIGABRT"
    else:
        return None
    sentence, *lines = stall.lines()
    return Failure(
        reason=f"{_named(rank)} gave up waiting: {message}; {sentence}",
        kind=FailureKind.STALLED,
        rank=stall.late_rank,
        exit_code=evidence.ended.exit_code if evidence.ended else None,
        lines=lines,
    )


def _unequal_batches(evidence: Evidence) -> Failure | None:
    """Ranks that lost a peer in a step, whose peer has ended its loop and then itself."""
    unequal = evidence.seen.unequal
    if unequal is None or not set(unequal.waiting) & set(evidence.errors.lost_peer_ranks()):
        return None
    detail = f"{UNEQUAL}: {unequal.past()}"
    return Failure(
        reason=f"{ranks_named(unequal.waiting)} lost a peer; {detail}",
        kind=FailureKind.UNEQUAL,
        detail=detail,
        rank=unequal.ended[0] if len(unequal.ended) == 1 else None,
        lines=[*evidence.errors.last_lines(unequal.waiting[0]), f"to do: {UNEQUAL_FIX}"],
    )


def _ended_by_signal(evidence: Evidence) -> Failure | None:
    sign = evidence.ended_by
    if evidence.ended is None or sign is None or sign == signal.SIGTERM:
        return None
    return Failure(
        reason=with_known_cause(
            f"{_named(evidence.rank)} was ended by {sign.name}",
            [*evidence.errors.lines_of(evidence.rank), *evidence.errors.lines_of(None)],
        ),
        rank=evidence.rank,
        exit_code=evidence.ended.exit_code,
        signal=sign.name,
        # Hydra reports ends as output.
        lines=evidence.errors.last_lines(evidence.rank) or evidence.output.last_lines(None),
    )


def _raised(evidence: Evidence) -> Failure | None:
    cause = evidence.errors.first_cause()
    if cause is None:
        return None
    rank, line = cause
    is_named = evidence.ended is not None and evidence.rank == rank
    printed = evidence.errors.lines_of(None) if rank is None else []
    return Failure(
        reason=with_known_cause(f"{_named(rank)} raised {line}", printed),
        rank=rank,
        exit_code=evidence.ended.exit_code if evidence.ended and is_named else 1,
        lines=evidence.errors.last_lines(rank),
    )


def _ended_silently(evidence: Evidence) -> Failure | None:
    silent = evidence.errors.silent_ranks(evidence.progress.ranks)
    if not silent:
        return None
    return Failure(
        reason=f"{ranks_named(silent)} ended without a message, and the others lost their peer",
        rank=silent[0] if len(silent) == 1 else None,
        lines=evidence.errors.last_lines(None),
    )


def _launcher_ended_by_signal(evidence: Evidence) -> Failure | None:
    code = evidence.outcome.exit_code
    number = signal_number(128 - code if code < 0 else code)
    if evidence.ended is not None or number is None:
        return None
    name = signal.Signals(number).name
    # Launchers and shells pass on the end of a process of theirs as 128 and the signal.
    what = "the launcher" if code < 0 else "a process of the launch"
    return Failure(
        reason=with_known_cause(f"{what} was ended by {name}"),
        exit_code=evidence.outcome.exit_code,
        signal=name,
        lines=evidence.errors.last_lines(None),
    )


def _exit_code(evidence: Evidence) -> Failure:
    rank, code = evidence.rank, evidence.outcome.exit_code
    if evidence.ended is not None and evidence.ended.exit_code is not None:
        code = evidence.ended.exit_code
    lines = evidence.errors.last_lines(rank)
    message = f": {lines[-1].strip()}" if lines else " and no message"
    return Failure(
        reason=with_known_cause(
            f"{_named(rank)} ended with exit code {code}{message}",
            [*evidence.errors.lines_of(rank), *evidence.errors.lines_of(None)],
        ),
        rank=rank,
        exit_code=code,
        lines=lines,
    )


_RULES: tuple[Callable[[Evidence], Failure | None], ...] = (
    *(_hung, _not_started, _launcher_failed, _exited_improperly, _was_stopped, _gave_up_waiting),
    *(_unequal_batches, _ended_by_signal, _raised, _ended_silently, _launcher_ended_by_signal),
    *(_exit_code,),
)
"""From the surest evidence to the weakest; the first that applies counts, the last always does."""


def first_exit(text: str) -> ProcessExit | None:
    """The first end of a process in a text; Slurm terminates the other tasks after the first."""
    exits = process_exits(text)
    terminated = None
    for ended in exits:
        if ended.signal != signal.SIGTERM:
            return ended
        terminated = terminated or ended
    return terminated


def _named(rank: int | None) -> str:
    return "the launch" if rank is None else f"rank {rank}"
