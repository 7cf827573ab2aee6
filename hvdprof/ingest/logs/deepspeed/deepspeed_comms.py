"""What DeepSpeed's comms logger prints: a line per call, and summaries by message size.

Sizes are multiples of 1024 rounded to two digits. Bandwidths are in Gbit/s. A summary counts from
the start of the job, so that a later one includes all before it.
"""

import re

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import EVERY_LINE, anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.printed_tables import COMMS_LOG

_NUMBER = r"(\d+(?:\.\d+)?)"
_SIZE = r"(\d+(?:\.\d+)?) ?(B|KB|MB|GB|TB)"
_CALL = re.compile(
    rf"comm op: (?P<name>[^|]{{1,200}}?) \|(?: \[Caller Func: (?P<caller>[^\]]{{1,200}})\] \|)? "
    rf"time \(ms\): {_NUMBER} \| msg size: {_SIZE} \| algbw \(Gbps\): {_NUMBER}\s+\| "
    rf"busbw \(Gbps\): {_NUMBER}"
)
_RANK = re.compile(r"\brank=(\d{1,7})\b")
_HEADER = re.compile(r"Comm\. Op +Message Size +Count +Total Latency\(ms\)")
_ROW = re.compile(rf"^\s*{_SIZE}\s+(\d+)\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}(?:\s|$)")
_NAME = re.compile(r"^(\w{2,60})(?: \| \[Caller Func: ([^\]]{1,200})\])?\s*$")
_WANTED = anywhere("comm op: ", r"Comm\. Op ")
_BYTES = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_BITS = 8.0
_MOST_OPEN = 3


class DeepSpeedComms(PartReader):
    """Collectives of DeepSpeed's comms logger, as rows of COMMS_LOG."""

    TABLES = (COMMS_LOG,)
    KIND = "DeepSpeed comms log"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._num_summaries = 0
        self._operation = ""
        self._caller = ""
        self._num_strange: int | None = None

    @property
    def wanted(self) -> str:
        """Calls and the heads of summaries; within a summary every line."""
        return _WANTED if self._num_strange is None else EVERY_LINE

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        text = line.text
        if "comm op: " in text and (found := _CALL.search(text)):
            self._take_call(line, found)
        elif _HEADER.search(text):
            self._num_summaries += 1
            self._operation, self._caller, self._num_strange = "", "", 0
        elif self._num_strange is not None:
            self._take_summary(line)

    def _take_call(self, line: PrintedLine, found: re.Match[str]) -> None:
        time, size, unit, algbw, busbw = found.groups()[2:]
        rank = _RANK.search(line.text[: found.start()])
        name, _, caller = found["name"].partition(" | ")
        nanoseconds = round(float(time) * 1e6)
        self.add(
            line.number,
            rank=int(rank[1]) if rank else line.rank,
            operation=name.strip(),
            caller=found["caller"] or caller.removeprefix("[Caller Func: ").removesuffix("]"),
            size_bytes=_bytes(size, unit),
            number=1,
            total_ns=nanoseconds,
            mean_ns=nanoseconds,
            algbw_gb_s=float(algbw) / _BITS,
            busbw_gb_s=float(busbw) / _BITS,
        )

    def _take_summary(self, line: PrintedLine) -> None:
        if found := _ROW.match(line.text):
            size, unit, number, total, mean, algbw, busbw = found.groups()
            if self._operation:
                self.add(
                    line.number,
                    rank=line.rank,
                    summary=self._num_summaries - 1,
                    operation=self._operation,
                    caller=self._caller,
                    size_bytes=_bytes(size, unit),
                    number=int(number),
                    total_ns=round(float(total) * 1e6),
                    mean_ns=round(float(mean) * 1e6),
                    algbw_gb_s=float(algbw) / _BITS,
                    busbw_gb_s=float(busbw) / _BITS,
                )
            self._num_strange = 0
        elif name := _NAME.match(line.text.strip()):
            self._operation, self._caller = name[1], name[2] or ""
        else:
            # Other ranks may print between two rows; a summary has no end of its own.
            self._num_strange = (self._num_strange or 0) + 1
            if self._num_strange > _MOST_OPEN:
                self._num_strange = None


def _bytes(size: str, unit: str) -> int:
    return round(float(size) * _BYTES[unit])
