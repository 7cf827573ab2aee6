"""What became of a pass whose launch has ended, and whether it is started once more.

A launch that failed before any rank reported in has measured nothing and says nothing about the
script, so it is started once more: two launchers of one user disturb each other, a port that was
free is taken, a host refuses a connection too many.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hvdprof.launch.diagnose.explain import first_exit
from hvdprof.launch.diagnose.failure_evidence import signal_number
from hvdprof.launch.diagnose.printed_errors import PrintedErrors, printed_tail
from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.failures.launcher_failures import (
    NOT_RETRIED,
    WAS_INTERRUPTED,
    Failure,
    FailureKind,
    launcher_failure,
)
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord, SegmentRecord, Status

MAX_FAILURES = 2
_ATTEMPT = re.compile(r"-attempt(\d+)$")
MOST_RESTARTS = 2
_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.1, 1.0


def settle(
    record: PassRecord,
    progress: PassProgress,
    failure: Failure | None,
    *,
    least_steps: int | None = None,
) -> None:
    """Give every planned segment of an ended pass its status.

    A segment that all ranks ended is done. With a failure, the first segment that has not ended
    failed, since segments run in order; those after it stay planned. Where no rank had begun to
    record, all of them failed: the next launch would end alike.

    ``least_steps`` is given for a script of the user's own: it fails by its exit code, also after
    the recording, and a segment of which every rank recorded as many has a result all the same.
    """
    script_failed = least_steps is not None and failure is not None
    ended = set() if script_failed else progress.ended_segments(record.num_processes)
    open_segments = []
    for segment in record.segments:
        if segment.status == Status.PLANNED and segment.segment.id in ended:
            segment.status = Status.DONE
        elif segment.status == Status.PLANNED:
            open_segments.append(segment)
    if failure is None:
        failure, failed_segments = (
            _not_recorded(record, progress, is_script=least_steps is not None),
            open_segments,
        )
    else:
        failed_segments = open_segments[:1] if progress.ranks else open_segments
    is_enough = _is_enough(record, progress, least_steps)
    for segment in failed_segments:
        segment.status = Status.PARTIAL if is_enough else Status.FAILED
        segment.failure = failure
    failed = any(segment.failure is not None for segment in record.segments)
    record.status = Status.FAILED if failed or record.exit_code else Status.DONE


def interrupt(
    record: PassRecord,
    progress: PassProgress,
    *,
    least_steps: int | None = None,
    stall: Stall | None = None,
) -> None:
    """Give every planned segment of a pass that the user has ended its status.

    A segment that all ranks ended is done, and one of a script that got as far as ``least_steps``
    (as for ``settle``) has a result all the same. The others are open. ``stall`` is the one in
    which the user ended it.
    """
    failure = Failure(reason=WAS_INTERRUPTED, kind=FailureKind.INTERRUPTED)
    if stall is not None:
        sentence, *lines = stall.lines()
        failure = replace(
            failure, reason=f"{failure.reason}; {sentence}", rank=stall.late_rank, lines=lines
        )
    ended = progress.ended_segments(record.num_processes)
    is_enough = _is_enough(record, progress, least_steps)
    for segment in record.segments:
        if segment.segment.id in ended:
            segment.status = Status.DONE
        elif is_enough:
            segment.status = Status.PARTIAL
            segment.failure = failure
        else:
            segment.status = Status.INTERRUPTED
    record.status = Status.INTERRUPTED


def split_unfinished(
    record: PassRecord, passes: Iterable[PassRecord], *, retry_failed: bool
) -> PassRecord | None:
    """Take what has no result out of a pass and make it the next attempt; None where nothing is.

    Every cell stands in a manifest once, so the segments move; the files of the old pass stay.

    Args:
        record: The pass.
        passes: All passes of the manifest: the attempt gets a name, and so files, of its own.
        retry_failed: Take what failed too.
    """
    wanted = {Status.PLANNED, Status.RUNNING, Status.INTERRUPTED}
    if retry_failed:
        wanted |= {Status.FAILED, Status.PARTIAL}
    rest = [segment for segment in record.segments if segment.status in wanted]
    if not rest or (len(rest) == len(record.segments) and record.status == Status.PLANNED):
        return None
    record.segments = [segment for segment in record.segments if segment not in rest]
    return replace(
        record,
        id=_next_id(record.id, [record.id for record in passes]),
        status=Status.PLANNED,
        segments=[SegmentRecord(segment=segment.segment) for segment in rest],
        command=[],
        environment={},
        started_at=None,
        launched_ns=None,
        duration_s=None,
        exit_code=None,
        other_cpu_cores=None,
        steal_share=None,
        worker_ends=[],
        left_behind=[],
        restarts=[],
    )


@dataclass(slots=True)
class GivenUp:
    """Remembers cells that fail, so that a sweep does not wait for the same hang repeatedly.

    A cell that fails with the timeline on is still measured with it off.
    """

    _failures: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    _hung: set[tuple[int, str, str]] = field(default_factory=set)

    def note(self, record: PassRecord, *, hung: bool) -> None:
        """Count the failures of a pass that has ended."""
        for segment in record.segments:
            if segment.status == Status.FAILED:
                cell = (record.size, record.mode, segment.segment.id)
                self._failures[cell] += 1
                if hung:
                    self._hung.add(cell)

    def mark(self, record: PassRecord) -> None:
        """Fail the planned segments of a pass whose cells are not retried."""
        for segment in record.segments:
            cell = (record.size, record.mode, segment.segment.id)
            if segment.status != Status.PLANNED:
                continue
            if cell in self._hung or self._failures[cell] >= MAX_FAILURES:
                why = "it hung" if cell in self._hung else f"it failed {MAX_FAILURES} times"
                segment.status = Status.FAILED
                segment.failure = Failure(
                    reason=f"{NOT_RETRIED} {why} before", kind=FailureKind.NOT_RETRIED
                )


def _is_enough(record: PassRecord, progress: PassProgress, least_steps: int | None) -> bool:
    """Whether every rank recorded as many steps, where there is such a number."""
    if least_steps is None or len(progress.ranks) < record.num_processes:
        return False
    return min(state.num_steps for state in progress.ranks.values()) >= least_steps


def _not_recorded(record: PassRecord, progress: PassProgress, *, is_script: bool) -> Failure:
    problems = [problem for state in progress.ranks.values() for problem in state.problems]
    missing = sorted(set(range(record.num_processes)) - progress.ranks.keys())
    if progress.notice and not progress.ranks:
        return Failure(reason=progress.notice)
    if record.size > 1 and _sizes_in_headers(progress) == {1}:
        return Failure(
            reason="every process was a job of its own, rank 0 of 1 instead of one of "
            f"{record.size}; the launcher and Horovod's controller do not fit together (srun "
            "without --mpi=pmix does this, and reports success)",
            lines=problems,
        )
    reason = "the launch ended without an error, but the recording is not complete"
    if missing:
        reason += f": no recorder file of {ranks_named(missing)}"
    if len(missing) == record.num_processes and is_script:
        reason += (
            "; a script is recorded from hvd.DistributedOptimizer on, from its first "
            "optimizer.step() after a reduction by Horovod, or from the first update of a model "
            "inside DistributedDataParallel, and not where its Python does not see PYTHONPATH (-E, "
            "-I, -S, env -i)"
        )
    return Failure(reason=reason, lines=problems)


def _sizes_in_headers(progress: PassProgress) -> set[int]:
    """The numbers of ranks in the headers that the ranks wrote."""
    headers = [state.header for state in progress.ranks.values() if state.header]
    return {int(header["size"]) for header in headers if "size" in header}


def _next_id(pass_id: str, taken: Iterable[str]) -> str:
    """The attempt after the last one: a pass of which several segments failed has several."""
    base = _ATTEMPT.sub("", pass_id)
    attempts = (_ATTEMPT.search(name) for name in taken if _ATTEMPT.sub("", name) == base)
    last = max((int(found[1]) for found in attempts if found), default=1)
    return f"{base}-attempt{last + 1}"


def starts_again(record: PassRecord, paths: PassPaths, exit_code: int) -> bool:
    """Whether to start a launch again of which no rank has reported in; its record says why.

    A script that fails by itself is not started again, and neither is a launch whose known cause
    lasts. The output of the failed start is kept in a file of its own. Waits for up to a second.
    """
    if len(record.restarts) >= MOST_RESTARTS:
        return False
    reason = _passing_reason(paths, exit_code)
    if not reason:
        return False
    record.restarts.append(reason)
    for path in (paths.stdout, paths.stderr):
        path.replace(paths.of_failed_start(path, len(record.restarts)))
    # Two launchers that disturbed each other shall not start together again.
    time.sleep(random.uniform(_SHORTEST_WAIT_S, _LONGEST_WAIT_S))
    return True


def _passing_reason(paths: PassPaths, exit_code: int) -> str:
    """Why a launch failed, where that may not happen again; else empty."""
    if exit_code == 0 or exit_code < 0 or signal_number(exit_code) is not None:
        return ""
    texts = [printed_tail(paths.stderr), printed_tail(paths.stdout)]
    printed = [PrintedErrors.of(text) for text in texts]
    raised = [errors.first_cause() for errors in printed]
    if any(cause is not None and cause[0] is not None for cause in raised):
        return ""
    known = launcher_failure("\n".join(errors.text() for errors in printed))
    if known is not None:
        return known.text if known.kind.may_pass else ""
    is_of_rank = any(
        errors.has_ranks() or cause is not None or first_exit(text) is not None
        for errors, cause, text in zip(printed, raised, texts, strict=True)
    )
    if is_of_rank:
        return ""
    lines = [line for errors in printed for line in errors.last_lines(None)]
    return lines[0].strip() if lines else f"the launcher ended with exit code {exit_code}"
