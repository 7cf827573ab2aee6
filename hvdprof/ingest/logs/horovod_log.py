"""The lines of Horovod's own logging (``logging.cc``) in a job's output.

``[2026-11-20 21:56:09.  3056: W <path>/stall_inspector.cc:107] [0]: message``: local time,
microseconds padded with blanks, the rank only where the message belongs to one, no stamp under
HOROVOD_LOG_HIDE_TIME.
"""

import calendar
import re
import time
from dataclasses import dataclass

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.log_tables import HOROVOD_LOG

LONGEST_MESSAGE = 500

_LEVELS = dict(zip("TDIWEF", ("trace", "debug", "info", "warning", "error", "fatal"), strict=True))
_HEADER = re.compile(
    r"\[(?:(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(?P<us>[ \d]{6}): (?P<level>[TDIWEF])"
    r"(?: (?P<source>[^\]]*))?|(?P<bare_level>[TDIWEF]) (?P<bare_source>[^\s\]]+\.(?:cc|h):\d+))"
    r"\](?: ?\[(?P<rank>\d{1,7})\]:?)? ?"
)
_SOURCE = re.compile(r"[^/]+$")
_WANTED = anywhere(_HEADER.pattern)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of Horovod's logging."""

    message: str
    level: str
    source: str
    rank: int | None
    time_ns: int | None


class LogHeader:
    """Takes the header off lines of Horovod's logging."""

    def __init__(self) -> None:
        self._second = ("", 0)

    def parse(self, line: PrintedLine) -> LogLine | None:
        """The parts of a line of Horovod's logging; ``None`` where it is something else."""
        if "[" not in line.text:
            return None
        found = _HEADER.search(line.text)
        if found is None:
            return None
        level = found["level"] or found["bare_level"]
        source = _SOURCE.search(found["source"] or found["bare_source"] or "")
        rank = int(found["rank"]) if found["rank"] else line.rank
        return LogLine(
            message=line.text[found.end() :],
            level=_LEVELS[level],
            source=source.group() if source else "",
            rank=rank,
            time_ns=self._time_ns(found["time"], found["us"]) if found["time"] else None,
        )

    def _time_ns(self, second: str, microseconds: str) -> int | None:
        if self._second[0] != second:
            try:
                since = calendar.timegm(time.strptime(second, "%Y-%m-%d %H:%M:%S"))
            except ValueError:
                return None
            self._second = (second, since)
        digits = microseconds.replace(" ", "0")
        return (self._second[1] * 1_000_000 + int(digits)) * 1000


class HorovodLog(PartReader):
    """Every line of Horovod's logging as a row of HOROVOD_LOG."""

    TABLES = (HOROVOD_LOG,)
    KIND = "Horovod log"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._header = LogHeader()

    @property
    def wanted(self) -> str:
        """Lines with the header of Horovod's logging."""
        return _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        found = self._header.parse(line)
        if found is None:
            return
        self.add(
            line.number,
            rank=found.rank,
            time_ns=found.time_ns,
            level=found.level,
            source=found.source,
            message=found.message[:LONGEST_MESSAGE].strip(),
        )
