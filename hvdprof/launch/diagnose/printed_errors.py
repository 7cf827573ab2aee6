"""What the ranks and the launcher of a pass printed as errors, by rank."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.rundir.failures.log_prefixes import split_rank

MAX_LINES = 12
MAX_CHARACTERS = 2_000
"""Of a line: an error may hold a whole tensor."""

_TAIL_BYTES = 8_000_000
"""Room for a traceback of each of a thousand ranks, of which the first says why it all ended."""

_LOST_PEER = (
    *("HorovodInternalError", "Horovod has been shut down", "Connection closed by peer"),
    *("Connection reset by peer", "Broken pipe"),
)
"""Errors of a rank whose peer has ended: consequences, never the cause."""

_TIMED_OUT = re.compile(
    r"Timed out waiting \d+ms for (?:send|recv)\b.*|"
    r"Watchdog caught collective operation timeout.*"
)
"""How Gloo, and the watchdog of NCCL under PyTorch, end a collective that takes too long."""

_FROM_SHELL = "Terminated"
"""Printed by the shell that starts a rank when horovodrun ends the rank, which may just exit."""

_CLOSING = re.compile(
    r"Received \S+ death signal, shutting down workers|Sending process \d+ closing signal SIG"
)
_OWN_SIGNAL = re.compile(r"SignalException: Process \d+ got signal: \d+")
"""The end of the traceback of torchrun's agent."""

_TRACEBACK = "Traceback (most recent call last)"
_OF_AGENT = re.compile(r"torch\.distributed\.elastic\.multiprocessing\.errors\.ChildFailedError")
_LINE_OF_AGENT = re.compile(r"[EWI]\d{4} \S+ \d+ torch/distributed/elastic/")
_ROOT_BY_SIGNAL = re.compile(r"Root Cause \(.*?exitcode\s+: -\d", re.DOTALL)
_EXCEPTION = re.compile(  # Open MPI 5 puts a space behind its tag, version 4 does not.
    r"^ ?(?:[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b|hvdprof: |Fatal Python error)"
)


@dataclass(slots=True)
class PrintedErrors:
    """The error lines of each rank without log prefixes; those of the launcher under None."""

    by_rank: dict[int | None, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> "PrintedErrors":
        """The lines of a text."""
        printed = cls()
        for line in text.splitlines():
            rank, plain = split_rank(line)
            printed.by_rank.setdefault(rank, []).append(plain[:MAX_CHARACTERS].rstrip())
        if None in printed.by_rank:
            printed.by_rank[None] = _without_agent(printed.by_rank[None])
        return printed

    def without_own_signal(self) -> "PrintedErrors":
        """Without what torchrun's agent prints when hvdprof ends it: its traceback is no cause."""
        agent = _without_own_signal(self.lines_of(None))
        return PrintedErrors({**self.by_rank, None: agent})

    def first_cause(self) -> tuple[int | None, str] | None:
        """The first rank whose error is more than a lost peer, and its error line."""
        for rank, lines in self.by_rank.items():
            if rank is None and len(self.by_rank) > 1:
                continue
            errors = _errors(lines)
            lost_peer = any(part in line for line in errors for part in _LOST_PEER)
            if errors and not lost_peer:
                return rank, errors[-1].strip()
        return None

    def lost_peer_ranks(self) -> list[int]:
        """The ranks whose last error is that of a lost peer."""
        return [
            rank for rank in self.by_rank if rank is not None and self.lost_peer(rank) is not None
        ]

    def lost_peer(self, rank: int) -> str | None:
        """The error line by which a rank reports a lost peer; None where it reports none."""
        errors = _errors(self.lines_of(rank))
        lost = [line for line in errors if any(part in line for part in _LOST_PEER)]
        return lost[-1].strip() if lost else None

    def timed_out(self) -> tuple[int | None, str] | None:
        """The first rank whose collective timed out, and the message; None where none did."""
        for rank, lines in self.by_rank.items():
            found = next(filter(None, map(_TIMED_OUT.search, lines)), None)
            if found is not None:
                return rank, found[0].rstrip(". ")
        return None

    def silent_ranks(self, ranks: Iterable[int]) -> list[int]:
        """Those of the ranks that printed no error while another rank did; empty if none did."""
        with_error = {
            rank for rank, lines in self.by_rank.items() if rank is not None and _errors(lines)
        }
        return sorted(set(ranks) - with_error) if with_error else []

    def has_ranks(self) -> bool:
        """Whether a rank printed anything."""
        return bool(self.by_rank.keys() - {None})

    def text(self) -> str:
        """Every line, those of the launcher first."""
        ranks = sorted(self.by_rank, key=lambda rank: -1 if rank is None else rank)
        return "\n".join(line for rank in ranks for line in self.by_rank[rank])

    def lines_of(self, rank: int | None) -> list[str]:
        """Every line of a rank, of the launcher for None."""
        return self.by_rank.get(rank, [])

    def last_lines(self, rank: int | None) -> list[str]:
        """The last lines of a rank, at most ``MAX_LINES``; those of the launcher if it has none."""
        return self.last_lines_of(rank) or self.last_lines_of(None)

    def last_lines_of(self, rank: int | None) -> list[str]:
        """The last lines of a rank, or of the launcher for None, at most ``MAX_LINES``."""
        lines = [line for line in self.lines_of(rank) if line.strip("-= ")]
        while len(lines) > 1 and lines[-1].strip() == _FROM_SHELL:
            lines.pop()
        return lines[-MAX_LINES:]


def printed_tail(path: Path) -> str:
    """The end of what a launch printed; empty where nothing was started."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - _TAIL_BYTES))
        return file.read().decode("utf-8", errors="replace")


def _without_own_signal(lines: Iterable[str]) -> list[str]:
    rest: list[str] = []
    begin = None
    for line in lines:
        if line.startswith(_TRACEBACK):
            begin = len(rest)
        if _CLOSING.search(line):
            continue
        rest.append(line)
        if _OWN_SIGNAL.search(line) and begin is not None:
            del rest[begin:]
            begin = None
    return rest


def _without_agent(lines: list[str]) -> list[str]:
    """Without the traceback of torchrun's agent and its box, where a rank printed an error above.

    Without one, or of a rank that a signal ended, the box is the evidence.
    """
    end = next((place for place, line in enumerate(lines) if _OF_AGENT.match(line)), None)
    if end is None or _ROOT_BY_SIGNAL.search("\n".join(lines[end:])):
        return lines
    begin = max((place for place in range(end) if lines[place].startswith(_TRACEBACK)), default=end)
    above = [line for line in lines[:begin] if not _LINE_OF_AGENT.match(line)]
    return above if _errors(above) else lines


def _errors(lines: Iterable[str]) -> list[str]:
    # That a child failed says nothing of why.
    return [line for line in lines if _EXCEPTION.match(line) and not _OF_AGENT.match(line)]
