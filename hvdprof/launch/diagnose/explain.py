"""Why a pass failed: the rank that went first, how it ended, and the lines that show it.

The launcher's own report is not enough: ranks that lose a peer raise too, and `horovodrun` names
whichever process ended first, which often is such a victim.
"""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

from hvdprof import units
from hvdprof.launch.diagnose.rank_progress import PassProgress, RankState
from hvdprof.launch.processes.launch_process import Outcome
from hvdprof.rundir.manifest import Failure, WorkerEnd

MAX_LINES = 12
MAX_CHARACTERS = 2_000
"""Of a line: an error may hold a whole tensor."""

_TAG = re.compile(  # `[rank0]: ` is that of torch.distributed; the second form of `srun --label`.
    r"^(?:\[(?:rank|\d+,)?(?P<rank>\d+)\](?!:$)(?:: ?|\s?(?:<(?:stdout|stderr)>:)?)"
    r"| {0,4}(?P<task>\d+): )"
)
_INNER_TAG = re.compile(r"\[\d+,\d+\]<(?:stdout|stderr)>:")
_WORKER_END = re.compile(
    r"^Process (?P<rank>\d+) exit with status code (?P<code>\d+)", re.MULTILINE
)
_LAUNCHER_ENDS = (
    # Open MPI: the first form for signals, over two lines in version 5, the second for exit codes.
    re.compile(r"process rank (?P<rank>\d+) with PID .* exited on\s+signal (?P<signal>\d+)"),
    re.compile(r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]\s+Exit code:\s+(?P<code>\d+)"),
    # horovodrun --gloo.
    re.compile(r"Process (?P<rank>\d+) exit with status code (?P<code>\d+)"),
    # horovod.run and horovod.spark.run, whose name of a process is its rank.
    re.compile(r"Process name: (?P<rank>\d+)\s+Exit code: (?P<code>\d+)"),
    # torchrun, which ends the other ranks after the first.
    re.compile(
        r"Root Cause \(first observed failure\):.*?rank\s+: (?P<rank>\d+).*?"
        r"exitcode\s+: (?:-(?P<signal>\d+)|(?P<code>\d+))",
        re.DOTALL,
    ),
    # Slurm, which ends the other tasks after the first; one that never ran is no killed one.
    re.compile(r"srun: error: tasks? (?P<rank>\d+)\S* launch failed: (?P<why>[^\n]+)"),
    re.compile(r"srun: error: \S+ tasks? (?P<rank>\d+)\S*: Exited with exit code (?P<code>\d+)"),
    re.compile(
        r"srun: error: \S+ tasks? (?P<rank>\d+)\S*: "
        r"(?P<what>(?!Terminated)[A-Z][a-z]+(?: fault| error)?)(?: \(core dumped\))?$",
        re.MULTILINE,
    ),
    # Hydra: signals have a line behind the frame.
    re.compile(
        r"BAD TERMINATION .*?PID (?P<pid>\d+) .*?EXIT CODE: (?P<code>\d+)"
        r"(?:.*?EXIT STRING: [^\n]*\(signal (?P<signal>\d+)\))?",
        re.DOTALL,
    ),
)
_OF_LAUNCHER_AND_HOROVOD = ("SIGTERM", "SIGABRT")
_DESCRIBED = {signal.strsignal(one): int(one) for one in signal.valid_signals()}
_CONSEQUENCES = (
    "HorovodInternalError",
    "Horovod has been shut down",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
)
_OF_THE_SHELL = "Terminated"
"""Printed by the shell in front of a rank that horovodrun ends while the rank is about to end."""
_EXCEPTION = re.compile(  # Open MPI 5 puts a space behind its tag, version 4 does not.
    r"^ ?(?:[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b|hvdprof: |Fatal Python error)"
)


@dataclass(frozen=True, slots=True)
class _End:
    rank: int | None
    exit_code: int | None
    signal: str | None
    why_not_started: str


@dataclass(slots=True)
class _Printed:
    """What the ranks and the launcher printed as errors, by rank; None is the launcher."""

    by_rank: dict[int | None, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> "_Printed":
        printed = cls()
        for line in text.splitlines():
            tag = _TAG.match(line)
            rank = int(tag["rank"] or tag["task"]) if tag else None
            plain = _INNER_TAG.sub("", line[tag.end() :] if tag else line)
            printed.by_rank.setdefault(rank, []).append(plain[:MAX_CHARACTERS].rstrip())
        return printed


def explain(
    outcome: Outcome, progress: PassProgress, *, stdout: str, stderr: str, timeout_s: float
) -> Failure:
    """The failure of a pass, from how its launcher ended and what its ranks left behind.

    Args:
        outcome: How the launcher ended.
        progress: How far the ranks got.
        stdout: The end of what was printed.
        stderr: The end of what was printed as errors.
        timeout_s: The time without progress after which a launch counts as hung.
    """
    printed = _Printed.of(stderr)
    if outcome.hung:
        return Failure(
            reason=f"no rank got on for {units.seconds(timeout_s)}; {_standing(progress)}",
            rank=_rank_behind(progress),
            lines=_last_lines(printed, None),
        )
    raised = _first_cause(printed)
    ended = _launcher_end(stderr, progress) or _launcher_end(stdout, progress)
    if ended and ended.why_not_started:
        return Failure(
            reason=f"{_named(ended.rank)} could not be started: {ended.why_not_started}",
            rank=ended.rank,
            lines=_last_lines(printed, None),
        )
    if ended and ended.signal and ended.signal != "SIGTERM":
        return Failure(
            reason=f"{_named(ended.rank)} was ended by {ended.signal}{_advice(ended.signal)}",
            rank=ended.rank,
            exit_code=ended.exit_code,
            signal=ended.signal,
            # Hydra reports ends as output.
            lines=_last_lines(printed, ended.rank) or _last_lines(_Printed.of(stdout), None),
        )
    if raised is not None:
        rank, line = raised
        exit_code = ended.exit_code if ended and ended.rank == rank else 1
        return Failure(
            reason=f"{_named(rank)} raised {line}",
            rank=rank,
            exit_code=exit_code,
            lines=_last_lines(printed, rank),
        )
    silent = _silent_ranks(printed, progress)
    if silent:
        return Failure(
            reason=f"{_listed(silent)} ended without a message, and the others lost their peer",
            rank=silent[0] if len(silent) == 1 else None,
            lines=_last_lines(printed, None),
        )
    number = _signal_of(128 - outcome.exit_code)
    if ended is None and number is not None:
        return _launcher_ended_by(signal.Signals(number).name, outcome, printed)
    rank = ended.rank if ended else None
    exit_code = ended.exit_code if ended else outcome.exit_code
    lines = _last_lines(printed, rank)
    message = f": {lines[-1].strip()}" if lines else " and no message"
    return Failure(
        reason=f"{_named(rank)} ended with exit code {exit_code}{message}",
        rank=rank,
        exit_code=exit_code,
        lines=lines,
    )


def _launcher_ended_by(name: str, outcome: Outcome, printed: _Printed) -> Failure:
    return Failure(
        reason=f"the launcher was ended by {name}{_advice(name)}",
        exit_code=outcome.exit_code,
        signal=name,
        lines=_last_lines(printed, None),
    )


def explain_last(ends: Sequence[WorkerEnd]) -> Failure | None:
    """Why an elastic launch failed: the last worker with an error of its own.

    The ones before it were survived. None where no worker did more than lose a peer.
    """
    for end in reversed(ends):
        number = _signal_of(end.exit_code)
        name = signal.Signals(number).name if number else None
        raised = _first_cause(_Printed({end.rank: end.lines}))
        if name is not None and name not in _OF_LAUNCHER_AND_HOROVOD:
            what = f"was ended by {name}{_advice(name)}"
        elif name is None and raised is not None:
            what = f"raised {raised[1]}"
        else:
            continue
        return Failure(
            reason=f"{_named(end.rank)} {what}",
            rank=end.rank,
            exit_code=end.exit_code,
            signal=name,
            lines=end.lines,
        )
    return None


def worker_ends(stdout: str, stderr: str) -> list[WorkerEnd]:
    """The processes of an elastic launch that failed, in the order in which that was told."""
    printed = _Printed.of(stderr)
    return [
        WorkerEnd(
            rank=int(found["rank"]),
            exit_code=int(found["code"]),
            lines=_last_lines_of(printed, int(found["rank"])),
        )
        for found in _WORKER_END.finditer(stdout + "\n" + stderr)
    ]


def _first_cause(printed: _Printed) -> tuple[int | None, str] | None:
    """The first rank whose error is not the mere loss of a peer, and its error line."""
    for rank, lines in printed.by_rank.items():
        if rank is None and len(printed.by_rank) > 1:
            continue
        errors = [line for line in lines if _EXCEPTION.match(line)]
        own = [line for line in errors if not any(part in line for part in _CONSEQUENCES)]
        lost_a_peer = len(own) < len(errors)
        if own and not lost_a_peer:
            return rank, own[-1].strip()
    return None


def _silent_ranks(printed: _Printed, progress: PassProgress) -> list[int]:
    """The ranks that printed no error while another one says that it lost a peer."""
    with_error = {
        rank
        for rank, lines in printed.by_rank.items()
        if rank is not None and any(_EXCEPTION.match(line) for line in lines)
    }
    return sorted(progress.ranks.keys() - with_error) if with_error else []


def _launcher_end(text: str, progress: PassProgress) -> _End | None:
    for pattern in _LAUNCHER_ENDS:
        found = pattern.search(text)
        if found:
            groups = found.groupdict()
            pid = groups.get("pid")
            rank = int(groups["rank"]) if groups.get("rank") else _rank_of(pid, progress)
            code = int(groups["code"]) if groups.get("code") else None
            number = int(groups["signal"]) if groups.get("signal") else _signal_of(code)
            number = number or _DESCRIBED.get(groups.get("what") or "")
            name = signal.Signals(number).name if number else None
            return _End(rank, code, name, groups.get("why") or "")
    return None


def _rank_of(pid: str | None, progress: PassProgress) -> int | None:
    """The rank that is that process; None where none is, or processes of several hosts are."""
    headers = {rank: state.header or {} for rank, state in progress.ranks.items()}
    ranks = [rank for rank, header in headers.items() if str(header.get("pid")) == pid]
    return ranks[0] if len(ranks) == 1 else None


def _signal_of(exit_code: int | None) -> int | None:
    number = (exit_code or 0) - 128
    return number if number in {int(sign) for sign in signal.Signals} else None


def _advice(name: str) -> str:
    if name == "SIGKILL":
        return " (killed from outside; often the kernel when memory runs out)"
    if name == "SIGSEGV":
        return " (a crash in native code; under Gloo often an unresolvable host name)"
    return ""


def _standing(progress: PassProgress) -> str:
    states = sorted(progress.ranks.values(), key=lambda state: state.rank)
    if not states:
        return "no rank had begun to record"
    return "; ".join(f"rank {state.rank} {_where(state)}" for state in states[:8]) + (
        f"; {len(states) - 8} more ranks" if len(states) > 8 else ""
    )


def _where(state: RankState) -> str:
    if state.finished:
        return "had finished"
    if state.segment is None:
        return "was between segments"
    return f"had done {state.num_steps} steps"


def _rank_behind(progress: PassProgress) -> int | None:
    running = [state for state in progress.ranks.values() if not state.finished]
    counts = {state.num_steps for state in running}
    if len(counts) < 2:
        return None
    return min(running, key=lambda state: state.num_steps).rank


def _listed(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _named(rank: int | None) -> str:
    return "the launch" if rank is None else f"rank {rank}"


def _last_lines(printed: _Printed, rank: int | None) -> list[str]:
    return _last_lines_of(printed, rank) or _last_lines_of(printed, None)


def _last_lines_of(printed: _Printed, rank: int | None) -> list[str]:
    lines = [line for line in printed.by_rank.get(rank, []) if line.strip("-= ")]
    while len(lines) > 1 and lines[-1].strip() == _OF_THE_SHELL:
        lines.pop()
    return lines[-MAX_LINES:]
