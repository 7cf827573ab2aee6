"""The lines of a job's output that say that something went wrong: of Horovod and its launchers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hvdprof.ingest.logs.horovod_log import LONGEST_MESSAGE, LogHeader
from hvdprof.ingest.logs.printed_lines import PrintedLine
from hvdprof.ingest.logs.stall_warnings import OPENING
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.model.tables.log_tables import INCIDENTS
from hvdprof.rundir.launcher_exits import ProcessExit, process_exits

_KINDS = (
    ("stall", re.escape(OPENING)),
    ("background-loop", "Horovod background loop uncaught exception"),
    ("internal-error", "HorovodInternalError"),
    ("shutdown", r"Horovod has been shut down|is stalled for longer than .* Will shutdown"),
    ("cache-eviction", "A response has been evicted from cache"),
    ("stall-setting", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS is less than"),
    ("timeline-file", "Error opening the Horovod Timeline file"),
    ("nccl-tests", r"Test (?:NCCL |CUDA )failure "),
    ("mpi", r"are unable to reach each other for|\*\*\* MPI_ERR_\w+: "),
    # Said by the launcher in front of the process that it names in the next lines.
    ("", r"Horovod detected that one or more processes exited"),
    ("", r"^\s*raise "),
)
_EXCEPTION = re.compile(r"^ ?[A-Za-z_][\w.]*(?:Error|Exception|Interrupt): ")
_INCIDENT = re.compile("|".join(f"({pattern})" for _, pattern in _KINDS))
_MAY_END = re.compile(
    r"process rank \d|Process name: |Process \d+ exit|srun: error|BAD TERMINATION|^signal \d|"
    r"^\s*=?\s*(?:Exit code|EXIT CODE|PID|RANK|CLEANING)\b|Process \d+ exit"
)


@dataclass(slots=True)
class _End:
    """The begin of what a launcher says over several lines about a process that ended."""

    number: int
    text: str


class Incidents:
    """Failures, shutdowns and ends of processes as rows of INCIDENTS.

    Args:
        file: Name of the file, for the rows.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._rows = Rows(INCIDENTS)
        self._header = LogHeader()
        self._end: _End | None = None

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        if _MAY_END.search(line.text) and self._take_end(line):
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

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """INCIDENTS."""
        return {INCIDENTS.name: self._rows.frame()}

    def kinds(self) -> list[str]:
        """``output of a job`` where something went wrong in it."""
        return ["output of a job"] if len(self._rows) else []

    def notes(self) -> list[str]:
        """Nothing."""
        return []

    def _take_end(self, line: PrintedLine) -> bool:
        text = line.text.strip()
        if self._end is not None and line.number - self._end.number > 8:
            self._end = None
        opens = "rocess " in text or "srun: " in text or "BAD TERMINATION" in text
        number = line.number if opens or self._end is None else self._end.number
        text = text if opens or self._end is None else f"{self._end.text} {text}"
        ended = next(process_exits(text), None)
        if ended is not None:
            self._end = None
            self._add(number, "process-end", text, ended=ended)
            return True
        self._end = _End(number, text[-LONGEST_MESSAGE:])
        return False

    def _add(
        self,
        number: int,
        kind: str,
        message: str,
        *,
        rank: int | None = None,
        time_ns: int | None = None,
        ended: ProcessExit | None = None,
    ) -> None:
        self._rows.add(
            file=self._file,
            line=number,
            rank=rank,
            time_ns=time_ns,
            kind=kind,
            failed_rank=ended.rank if ended else None,
            exit_code=ended.exit_code if ended else None,
            signal=ended.signal if ended else None,
            message=message.strip()[:LONGEST_MESSAGE],
        )


def _kind_of(text: str) -> str:
    found = _INCIDENT.search(text)
    if found is not None:
        return _KINDS[(found.lastindex or 1) - 1][0]
    return "exception" if _EXCEPTION.match(text) else ""
