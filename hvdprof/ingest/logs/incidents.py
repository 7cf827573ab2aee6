"""Lines of a job's output that show a failure: of Horovod, of its launchers, exceptions."""

import re
from dataclasses import dataclass, field

from hvdprof.ingest.logs.horovod_log import LONGEST_MESSAGE, LogHeader
from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.logs.stall_warnings import OPENING
from hvdprof.ingest.text.line_filter import EVERY_LINE, anywhere, matching_texts
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.log_tables import INCIDENTS
from hvdprof.rundir.failures.known_failures import (
    OUT_OF_MEMORY,
    UNREACHABLE,
    USAGE_ERROR,
    process_exits,
)

_KINDS = (
    ("stall", re.escape(OPENING)),
    ("background-loop", "Horovod background loop uncaught exception"),
    ("internal-error", "HorovodInternalError"),
    ("shutdown", r"Horovod has been shut down|is stalled for longer than .* Will shutdown"),
    ("cache-eviction", "A response has been evicted from cache"),
    ("stall-setting", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS is less than"),
    ("timeline-file", "Error opening the Horovod Timeline file"),
    ("nccl-tests", r"Test (?:NCCL |CUDA )failure "),
    ("adasum", "UserWarning: Adasum reduction does not currently support GPU reduction using MPI"),
    (
        "network-timeout",
        # Gloo, PyTorch's store and rendezvous, horovodrun, ssh, and Open MPI's TCP.
        r"Timed out waiting \d+ms for (?:send|recv)|client socket has timed out after|"
        r"Timed out after \d+ seconds waiting for clients|RendezvousTimeoutError|"
        r"Timed out waiting for .{1,200}Please check (?:connectivity|that you have)|"
        r"^ssh: connect to host \S+ port \d+: (?:Connection timed out|No route to host)|"
        r"connect\(\) to \S+ failed: (?:Connection timed out|No route to host)|"
        r"gloo.{1,200}(?:[Cc]onnect(?:ion)? timed? ?out)",
    ),
    (
        "rendezvous",
        r"HTTP \w+ request failed too many times|Wait timeout after \d+ seconds for key",
    ),
    (
        "nccl-error",
        r"^(?:\w+(?:\.\w+)*: )?NCCL (?:[Ee]rror\b|error in: )|nccl(?:System|Remote)Error",
    ),
    ("mpi", rf"{UNREACHABLE}|\*\*\* MPI_ERR_\w+: "),
    ("out-of-memory", OUT_OF_MEMORY),
    ("usage", USAGE_ERROR),
    # Printed by the launcher before the lines that name the process.
    ("", r"Horovod detected that one or more processes exited"),
    # Of the process, before its launcher reports its end.
    (
        "crash",
        r"^Fatal Python error: |\*\*\* Process received signal \*\*\*|"
        r"^(?:\S+: line \d+: +\d+ )?(?:Segmentation fault|Aborted|Bus error) +\(core dumped\)",
    ),
    ("cancelled", r"slurmstepd: error: \*{3} \S+ \S+ ON \S+ CANCELLED AT "),
    # torchrun's own, of a rank that ended: its report follows.
    ("job-end", r"^Primary job +terminated normally, but \d+ process|ChildFailedError: *$"),
    ("", r"^\s*raise "),
)
_EXCEPTION = re.compile(r"^ ?(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)|Exception): ")
_INCIDENT = re.compile("|".join(f"({pattern})" for _, pattern in _KINDS))
_MAY_END = re.compile(
    r"process rank \d|Process name: |Process \d+ exit|srun: error|BAD TERMINATION|^signal \d|"
    r"^\s*=?\s*(?:Exit code|EXIT CODE|PID|RANK|CLEANING)\b|Process \d+ exit|Root Cause \(first|"
    r"^\s+(?:rank|exitcode) +: +-?\d|\(exitcode: -?\d+\)|rank \d+ (?:died from|exited with)|"
    r"process \d+ terminated with signal "
)
_OPENS = re.compile(
    r"rocess |srun: |BAD TERMINATION|Root Cause|exitcode: |rank \d+ (?:died|exited)"
)
_SECTION = re.compile(r"^\s*(?:Failures:|(?P<first>Root Cause \(first observed failure\):))\s*$")
_ENTRY = re.compile(r"^\s*\[\d{1,7}\]:\s*$")
_FIELD = re.compile(r"^\s*(?P<name>time|host|rank|exitcode) +: +(?P<value>\S+)")
_RULE = re.compile(r"^\s*(?:={20,}|-{20,})\s*$")
_WANTED = anywhere(
    _INCIDENT.pattern, _EXCEPTION.pattern, _MAY_END.pattern, r"Failures:\s*$|Root Cause \(first"
)
# From this length on, asking RE2 first costs less than the many alternatives of ``re``.
_LONG = 10_000
_LONGEST_REPORT = 10_000
"""Lines of a section of torchrun's report: eight for each rank."""


@dataclass(slots=True)
class _BegunReport:
    """The first lines of a launcher's report of one ended process, which may have several."""

    number: int
    text: str


@dataclass(slots=True)
class _TorchrunReport:
    """A section of torchrun's report: the first failure, or the others; its open entry."""

    number: int
    is_first: bool
    fields: dict[str, str] = field(default_factory=dict)


class Incidents(PartReader):
    """Failures, shutdowns and ends of processes as rows of INCIDENTS."""

    TABLES = (INCIDENTS,)
    KIND = "output of a job"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._header = LogHeader()
        self._begun: _BegunReport | None = None
        self._torchrun: _TorchrunReport | None = None

    @property
    def wanted(self) -> str:
        """Lines that may show a failure or belong to the report of one."""
        return EVERY_LINE if self._torchrun else _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        if len(line.text) > _LONG and not len(matching_texts([line.text], _WANTED)):
            return
        if self._take_torchrun(line) or (_MAY_END.search(line.text) and self._take_end(line)):
            return
        kind = _kind_of(line.text)
        if not kind:
            return
        log = self._header.parse(line)
        self._add(
            line.number,
            kind,
            log.message if log else line.text,
            rank=log.rank if log else line.rank,
            time_ns=log.time_ns if log else None,
        )

    def _take_torchrun(self, line: PrintedLine) -> bool:
        """A line of torchrun's report: one entry for each rank, the first failure at its end."""
        section = _SECTION.match(line.text)
        if section is not None or _RULE.match(line.text):
            self.finish()
            self._torchrun = (
                _TorchrunReport(line.number, bool(section["first"])) if section else None
            )
            return section is not None
        report = self._torchrun
        if report is None or line.number - report.number > _LONGEST_REPORT:
            self._torchrun = None
            return False
        if _ENTRY.match(line.text):
            self.finish()
            return True
        found = _FIELD.match(line.text)
        if found is not None:
            report.fields[found["name"]] = found["value"]
        return found is not None

    def finish(self) -> None:
        """Add what the open entry says; its end may be cut off."""
        report = self._torchrun
        if report is None or not report.fields.get("rank", "").isdecimal():
            return
        code = report.fields.get("exitcode", "")
        number = int(code) if code.lstrip("-").isdecimal() else None
        self._add(
            report.number,
            "process-end" if report.is_first else "later-end",
            ", ".join(f"{name} {value}" for name, value in report.fields.items()),
            failed_rank=int(report.fields["rank"]),
            exit_code=number if number is not None and number >= 0 else None,
            signal=-number if number is not None and number < 0 else None,
            host=report.fields.get("host", ""),
            failed_at=report.fields.get("time", ""),
        )
        report.fields = {}

    def _take_end(self, line: PrintedLine) -> bool:
        text = line.text.strip()
        if self._begun is not None and line.number - self._begun.number > 8:
            self._begun = None
        opens = bool(_OPENS.search(text))
        number = line.number if opens or self._begun is None else self._begun.number
        text = text if opens or self._begun is None else f"{self._begun.text} {text}"
        ended = next(process_exits(text), None)
        if ended is not None:
            self._begun = None
            self._add(
                number,
                "process-end",
                text,
                failed_rank=ended.rank,
                exit_code=ended.exit_code,
                signal=ended.signal,
            )
            return True
        self._begun = _BegunReport(number, text[-LONGEST_MESSAGE:])
        return False

    def _add(self, number: int, kind: str, message: str, **values: int | str | None) -> None:
        self.add(number, kind=kind, message=message.strip()[:LONGEST_MESSAGE], **values)


def _kind_of(text: str) -> str:
    found = _INCIDENT.search(text)
    if found is not None:
        return _KINDS[(found.lastindex or 1) - 1][0]
    return "exception" if _EXCEPTION.match(text) else ""
