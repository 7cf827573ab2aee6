"""Why an elastic launch failed, and the ends of its workers."""

import signal
from collections.abc import Sequence

from hvdprof.launch.diagnose.failure_evidence import signal_number
from hvdprof.launch.diagnose.printed_errors import PrintedErrors
from hvdprof.rundir.failures.failure import Failure
from hvdprof.rundir.failures.known_failures import HOROVODRUN_EXIT, with_known_cause
from hvdprof.rundir.manifest import WorkerEnd

# What the launcher or Horovod itself does to ranks that are left over.
_CONSEQUENT_SIGNALS = (signal.SIGTERM, signal.SIGABRT)


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
