"""How launchers report a process of a job that ended: one pattern per launcher and wording."""

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass

HOROVODRUN_EXIT = re.compile(r"Process (?P<rank>\d+) exit with status code (?P<code>\d+)")
"""The line of ``horovodrun --gloo``, elastic or not, for each process that failed."""

_DESCRIBED_SIGNALS = {
    "Hangup": 1,
    "Interrupt": 2,
    "Quit": 3,
    "Illegal instruction": 4,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "Segmentation fault": 11,
    "Terminated": 15,
}
"""How Slurm names signals, with their numbers on Linux."""

_SIGNAL_NUMBERS = {member.name: int(member) for member in signal.Signals}

_PATTERNS = (
    # Open MPI, signals: one line in version 4, two in version 5.
    re.compile(r"process rank (?P<rank>\d+) with PID .* exited on\s+signal (?P<signal>\d+)"),
    # Exit codes of Open MPI 4 and 5, of horovod.run and of horovod.spark.run.
    re.compile(
        r"Process name: (?:\[\[\d+,\d+\],|\[\S+,|)(?P<rank>\d+)\]?\s+Exit code:\s+(?P<code>\d+)"
    ),
    # Open MPI, of a rank that ended as by os._exit(0): no code says so.
    re.compile(
        r"has exited due to process rank (?P<rank>\d+) with PID \d+ on\s+node \S+ "
        r"(?P<improper>exiting improperly)"
    ),
    HOROVODRUN_EXIT,
    # torchrun, which ends the other ranks after the first.
    re.compile(
        r"Root Cause \(first observed failure\):.*?rank\s+: (?P<rank>\d+).*?"
        r"exitcode\s+: (?:-(?P<signal>\d+)|(?P<code>\d+))",
        re.DOTALL,
    ),
    # torchrun's agent on each host, which names the rank by its number on that host.
    re.compile(
        r"failed \(exitcode: (?:-(?P<signal>\d+)|(?P<code>\d+))\) local_rank: \d+ "
        r"\(pid: (?P<pid>\d+)\)"
    ),
    # Cray's PALS.
    re.compile(r"\brank (?P<rank>\d+) died from signal (?P<signal>\d+)"),
    re.compile(r"\brank (?P<rank>\d+) exited with code (?P<code>[1-9]\d*)"),
    # torch.multiprocessing.spawn.
    re.compile(
        r"ProcessExitedException: process (?P<rank>\d+) terminated with signal "
        rf"(?P<named>{'|'.join(sorted(_SIGNAL_NUMBERS))})"
    ),
    # Slurm, which ends the other tasks after the first; one that never ran is no killed one.
    re.compile(r"srun: error: tasks? (?P<rank>\d+)\S* launch failed: (?P<why>[^\n]+)"),
    re.compile(r"srun: error: \S+ tasks? (?P<rank>\d+)\S*: Exited with exit code (?P<code>\d+)"),
    re.compile(
        r"srun: error: \S+ tasks? (?P<rank>\d+)\S*: "
        rf"(?P<described>{'|'.join(_DESCRIBED_SIGNALS)})(?: \(core dumped\))?$",
        re.MULTILINE,
    ),
    # Hydra: signals have a line behind the frame.
    re.compile(
        r"BAD TERMINATION (?:.*?PID (?P<pid>\d+) )?.*?EXIT CODE: (?P<code>\d+)"
        r"(?:.*?EXIT STRING: [^\n]*\(signal (?P<signal>\d+)\))?",
        re.DOTALL,
    ),
)


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """The end of one process; None where the launcher does not say it.

    ``why_not_started`` is empty for a process that ran. Hydra names the ``pid`` alone.
    ``is_improper`` says that it ended without MPI_Finalize, with no code of its own.
    """

    rank: int | None
    pid: int | None
    exit_code: int | None
    signal: int | None
    why_not_started: str
    is_improper: bool = False


def process_exits(text: str) -> Iterator[ProcessExit]:
    """Every end of a process that a launcher reports in a text, by launcher, then by place."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            named = match.groupdict()
            yield ProcessExit(
                rank=_number(named.get("rank")),
                pid=_number(named.get("pid")),
                exit_code=_number(named.get("code")),
                signal=_DESCRIBED_SIGNALS.get(named.get("described") or "")
                or _SIGNAL_NUMBERS.get(named.get("named") or "")
                or _number(named.get("signal")),
                why_not_started=named.get("why") or "",
                is_improper="improper" in named,
            )


def _number(digits: str | None) -> int | None:
    # Damaged output may hold more digits than any rank, process or code has.
    return int(digits) if digits and len(digits) < 10 else None
