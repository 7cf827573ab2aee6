"""The table that all_reduce_bench.py of stas00/ml-engineering prints.

``| 32KiB | 1.44GBps | 0.82GBps |``: payload in powers of 1024, bus and algorithm bandwidth in 1e9
bytes per second. Newer versions print the number of ranks in the line above it.

Its first versions print ``data size: 4.0 GB`` once for each rank, and for each rank and trial
``algo throughput: 55204675592.2 bps, 55.2 Gbps`` and ``busbw: 51.8 Gbps``: bits, and the first is
twice the size divided by the time. Their ratio is that of n - 1 to n ranks.
"""

import re
import statistics

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
_SIZE = re.compile(r"\bdata size: (\d{1,9}(?:\.\d{1,9})?) GB\b")
_TRIAL = re.compile(r"\b(algo throughput|busbw):.*?(\d{1,9}(?:\.\d{1,12})?) {1,2}Gbps(?:\s|$)")
_BITS = 8.0
_SAME = 1e-3
_WANTED = anywhere(_RANKS.pattern, _COLUMNS.pattern, "GBps", "data size: ", "Gbps")


class AllreduceBench(PartReader):
    """The rows of these tables as ALLREDUCE_BENCH; nothing is read before the column names."""

    TABLES = (ALLREDUCE_BENCH,)
    KIND = "output of all_reduce_bench.py"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._run = -1
        self._next_ranks: int | None = None
        self._ranks: int | None = None
        self._size: tuple[int, int] | None = None
        self._sent: float | None = None
        self._trials: list[tuple[float, float]] = []

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
        elif "data size: " in line.text and (size := _SIZE.search(line.text)):
            size_bytes = round(float(size[1]) * 1e9)
            if self._size is None or self._size[1] != size_bytes or self._trials:
                self.finish()
                self._size = line.number, size_bytes
        elif "Gbps" in line.text and (trial := _TRIAL.search(line.text)):
            self._take_trial(trial[1], float(trial[2]) / _BITS)

    def _take_trial(self, name: str, gb_s: float) -> None:
        """Keep the two numbers of a trial, which stand in neighbouring lines."""
        if name != "busbw":
            self._sent = gb_s
        elif self._sent:
            self._trials.append((self._sent, gb_s))
            self._sent = None

    def finish(self) -> None:
        """Add the median of all ranks and trials of one size: the first trials hold start-up."""
        trials, self._trials, self._sent = self._trials, [], None
        if not trials or self._size is None:
            return
        line, size_bytes = self._size
        ratio = statistics.median(bus / sent for sent, bus in trials)
        # Lines of two ranks that mix give another ratio.
        own = [bus for sent, bus in trials if abs(bus / sent - ratio) < _SAME * ratio]
        np = round(1 / (1 - ratio)) if ratio < 1 else 0
        self._run += 1
        self.add(
            line,
            run=self._run,
            np=np if np > 1 and abs((1 - 1 / np) / ratio - 1) < _SAME else None,
            size_bytes=size_bytes,
            busbw_gb_s=statistics.median(own),
            algbw_gb_s=statistics.median(own) / ratio / 2,
        )

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
