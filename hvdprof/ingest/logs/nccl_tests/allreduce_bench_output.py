"""The table that all_reduce_bench.py of stas00/ml-engineering prints.

``| 32KiB | 1.44GBps | 0.82GBps |``: payload in powers of 1024, bus and algorithm bandwidth in 1e9
bytes per second. Newer versions print the number of ranks in the line above it.
"""

import re

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.printed_tables import ALLREDUCE_BENCH

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_RANKS = re.compile(r"bandwidth of all_reduce over (\d{1,9}) ranks")
_COLUMNS = re.compile(r"\|\s*payload\s*\|\s*busbw\s*\|\s*algbw\s*\|")
_ROW = re.compile(
    r"\|\s*(?P<size>\d{1,6})(?P<unit>[KMGT]?)iB\s*"
    r"\|\s*(?P<bus>\d{1,9}(?:\.\d{1,6})?)GBps\s*\|\s*(?P<alg>\d{1,9}(?:\.\d{1,6})?)GBps\s*\|"
)
_WANTED = anywhere(_RANKS.pattern, _COLUMNS.pattern, "GBps")


class AllreduceBench(PartReader):
    """The rows of these tables as ALLREDUCE_BENCH; nothing is read before the column names."""

    TABLES = (ALLREDUCE_BENCH,)
    KIND = "output of all_reduce_bench.py"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._run = -1
        self._next_ranks: int | None = None
        self._ranks: int | None = None

    @property
    def wanted(self) -> str:
        """The headers of a table and its rows."""
        return _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        ranks = _RANKS.search(line.text)
        if ranks is not None:
            self._next_ranks = int(ranks[1])
        elif "|" in line.text and _COLUMNS.search(line.text):
            self._run += 1
            self._ranks, self._next_ranks = self._next_ranks, None
        elif self._run >= 0 and "GBps" in line.text:
            self._take_row(line)

    def _take_row(self, line: PrintedLine) -> None:
        row = _ROW.search(line.text)
        if row is not None:
            self.add(
                line.number,
                run=self._run,
                np=self._ranks,
                size_bytes=int(row["size"]) * 1024 ** _POWERS[row["unit"]],
                busbw_gb_s=float(row["bus"]),
                algbw_gb_s=float(row["alg"]),
            )
