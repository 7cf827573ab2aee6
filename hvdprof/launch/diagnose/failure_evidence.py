"""What is known of a launch that failed: where its ranks were, and why an elastic one ended."""

import re
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hvdprof.launch.diagnose.printed_errors import PrintedErrors
from hvdprof.launch.diagnose.rank_progress import PassProgress, RankState
from hvdprof.launch.diagnose.stall import Stall, StalledRank
from hvdprof.launch.diagnose.watch_state import UnequalBatches
from hvdprof.launch.processes.launch_process import LaunchOutcome
from hvdprof.machine.out_of_memory import oom_kills
from hvdprof.rundir.failures.known_failures import HOROVODRUN_EXIT, ProcessExit, with_known_cause
from hvdprof.rundir.failures.launcher_failures import (
    Failure,
    KnownLauncherFailure,
    launcher_failure,
)
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord, Status, WorkerEnd

# What the launcher or Horovod itself does to ranks that are left over.
_CONSEQUENT_SIGNALS = (signal.SIGTERM, signal.SIGABRT)

_WRITER = 0
_HOROVOD_ERROR = re.compile(r"Error (?:opening|writing to) the Horovod Timeline.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSeen:
    """What was seen of the ranks while the launch ran.

    ``stopped_s`` are the seconds for which a signal stopped a rank while another one ran, ``stall``
    is the one in which the launch ended, and ``blocked`` are the ranks whose step had not ended for
    long, with their stacks. ``unequal`` are ranks with fewer batches than others.
    """

    stopped_s: Mapping[int, float] = field(default_factory=dict)
    stall: Stall | None = None
    blocked: Sequence[StalledRank] = ()
    unequal: UnequalBatches | None = None


NOTHING_SEEN = LastSeen()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that is known of a launch that failed."""

    outcome: LaunchOutcome
    progress: PassProgress
    errors: PrintedErrors
    output: PrintedErrors
    ended: ProcessExit | None
    timeout_s: float
    seen: LastSeen

    @property
    def ended_by(self) -> signal.Signals | None:
        """The signal that ended the process that the launcher names."""
        if self.ended is None:
            return None
        number = self.ended.signal or signal_number(self.ended.exit_code)
        return signal.Signals(number) if number else None

    @property
    def launcher_failure(self) -> KnownLauncherFailure | None:
        """What of the known failures of launchers was printed, if any."""
        return launcher_failure("\n".join((self.errors.text(), self.output.text())))

    @property
    def rank(self) -> int | None:
        """The rank that the launcher names; Hydra names its process, which must be one rank's."""
        if self.ended is None or self.ended.rank is not None or self.ended.pid is None:
            return self.ended.rank if self.ended else None
        ranks = [
            rank
            for rank, state in self.progress.ranks.items()
            if state.header and state.header.get("pid") == self.ended.pid
        ]
        return ranks[0] if len(ranks) == 1 else None


def signal_number(exit_code: int | None) -> int | None:
    """The signal by which a shell reports the end of a process; None where it is an exit code."""
    number = (exit_code or 0) - 128
    return number if number in {int(sign) for sign in signal.Signals} else None


class MemoryWatch:
    """Counts the processes that the kernel of this host ends for lack of memory, from now on."""

    def __init__(self) -> None:
        self._before = oom_kills()

    def num_ended(self) -> int:
        """Processes ended since; 0 also where the kernel does not count them."""
        now = oom_kills()
        return 0 if now is None or self._before is None else now - self._before


def with_place(failure: Failure, progress: PassProgress, num_out_of_memory: int) -> Failure:
    """The failure with the host of its rank, and with what the kernel did meanwhile."""
    state = None if failure.rank is None else progress.ranks.get(failure.rank)
    header = state.header if state else None
    host = str(header["host"]["hostname"]) if header and "host" in header else None
    reason = failure.reason
    here = socket.gethostname()
    if failure.signal == "SIGKILL" and num_out_of_memory and host in (None, here):
        processes = "a process" if num_out_of_memory == 1 else f"{num_out_of_memory} processes"
        reason += f"; the kernel of {here} ended {processes} for lack of memory meanwhile"
    return replace(failure, host=host, reason=reason)


def explain_last(ends: Sequence[WorkerEnd]) -> Failure | None:
    """Why an elastic launch failed: the last worker with an error of its own.

    The ones before it were survived. None where no worker did more than lose a peer.
    """
    for end in reversed(ends):
        number = signal_number(end.exit_code)
        raised = PrintedErrors({end.rank: end.lines}).first_cause()
        if number is not None and number not in _CONSEQUENT_SIGNALS:
            what = f"was ended by {signal.Signals(number).name}"
        elif number is None and raised is not None:
            what = f"raised {raised[1]}"
        else:
            continue
        return Failure(
            reason=with_known_cause(f"rank {end.rank} {what}"),
            rank=end.rank,
            exit_code=end.exit_code,
            signal=signal.Signals(number).name if number else None,
            lines=end.lines,
        )
    return None


def worker_ends(stdout: str, stderr: str) -> list[WorkerEnd]:
    """The processes of an elastic launch that failed, in the order of the launcher's lines."""
    printed = PrintedErrors.of(stderr)
    return [
        WorkerEnd(
            rank=int(match["rank"]),
            exit_code=int(match["code"]),
            lines=printed.last_lines_of(int(match["rank"])),
        )
        for match in HOROVODRUN_EXIT.finditer(stdout + "\n" + stderr)
    ]


def fail_without_timeline(
    record: PassRecord, paths: PassPaths, progress: PassProgress, stderr: str
) -> None:
    """Fail the segments of a launch that ended well, but without a timeline that was begun.

    Their steps ran without a timeline, so they do not show what a timeline costs.

    Args:
        record: The pass; gets the failures.
        paths: Its files.
        progress: What the ranks recorded; rank 0 records which timelines it began.
        stderr: The end of what was printed as errors.
    """
    writer = progress.ranks.get(_WRITER)
    if writer is None:
        return
    errors = [*_HOROVOD_ERROR.findall(stderr), *writer.timeline_problems]
    lacking = set(_not_written(writer, paths))
    if errors and not lacking:
        # Horovod stopped within a file: the last one.
        planned = [segment.segment.id for segment in record.segments if segment.segment.timeline]
        lacking = {[*planned, *writer.timelines][-1]} if planned else set()
    reason = f"rank {_WRITER} could not write Horovod's timeline"
    failure = Failure(
        reason=f"{reason}: {errors[-1].rstrip('.')}"
        if errors
        else f"{reason}; it printed no error",
        rank=_WRITER,
        lines=errors,
    )
    for segment in record.segments:
        if segment.segment.id in lacking and segment.status == Status.DONE:
            segment.status = Status.FAILED
            segment.failure = with_place(failure, progress, 0)
            record.status = Status.FAILED


def _not_written(writer: RankState, paths: PassPaths) -> Iterator[str]:
    """The segments whose timeline was begun, but is no file with something in it."""
    for segment, file in writer.timelines.items():
        path = paths.folder / file
        if not path.is_file() or not path.stat().st_size:
            yield segment
