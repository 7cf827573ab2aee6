"""The status of NCCL's RAS subsystem as text (``ncclras``, NCCL 2.24 and later).

For a communicator whose ranks differ, it prints how many ranks launched up to which operation, and
names the ranks of the smaller numbers alone: the others are those of the largest.
"""

import re
from collections.abc import Mapping

import pandas as pd

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_PROGRESS

_SOURCE = "ras"
_MOST_RANKS = 1_000_000
_COMMUNICATOR = re.compile(r"^#\d+-\d+ \(([0-9a-f]{1,16})\) (MISMATCH|INCOMPLETE|ERROR)")
_COUNT = re.compile(r"(\d{1,7}) ranks have launched up to operation (\d{1,18})\b")
_ALONE = re.compile(r"Rank (\d{1,7}) has launched up to operation (\d{1,18})\b")
_MEMBER = re.compile(r"Rank (\d{1,7}) -- (?:GPU|\[process)")
_MISSING = re.compile(r"The missing ranks?: (\d{1,7}(?:,\d{1,7})*)")
_WANTED = anywhere(
    r"\) MISMATCH", r"\) INCOMPLETE", r"\) ERROR", "launched up to operation", " -- GPU ",
    r" -- \[process", "The missing rank",
)  # fmt: skip


class RasText(PartReader):
    """Ranks of communicators that differ or do not answer, as rows of COLLECTIVE_PROGRESS."""

    TABLES = (COLLECTIVE_PROGRESS,)
    KIND = "NCCL RAS report"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._communicator = ""
        self._problem = ""
        self._operation: int | None = None
        # By operation the number of ranks and those that are named, with the line of each.
        self._numbers: dict[int, int] = {}
        self._named: dict[int, dict[int, int]] = {}

    @property
    def wanted(self) -> str:
        """Lines on communicators and their ranks."""
        return _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        text = line.text.strip()
        if found := _COMMUNICATOR.match(text):
            self._finish()
            self._communicator, self._problem = found[1], found[2]
        elif not self._communicator:
            return
        elif found := _MISSING.match(text):
            for rank in found[1].split(","):
                self._add(line.number, int(rank), None, "missing")
        elif self._problem != "MISMATCH":
            return
        elif found := _COUNT.match(text):
            self._operation = int(found[2])
            self._numbers[self._operation] = int(found[1])
            self._named.setdefault(self._operation, {})
        elif found := _ALONE.match(text):
            self._numbers[int(found[2])] = 1
            self._named.setdefault(int(found[2]), {})[int(found[1])] = line.number
        elif (found := _MEMBER.match(text)) and self._operation is not None:
            self._named[self._operation][int(found[1])] = line.number

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """COLLECTIVE_PROGRESS."""
        self._finish()
        return super().tables()

    def kinds(self) -> list[str]:
        """``NCCL RAS report`` where one is in the file."""
        self._finish()
        return super().kinds()

    def _finish(self) -> None:
        """The rows of the communicator that ends; those not named are of the one open number."""
        total = sum(self._numbers.values())
        named = {rank for members in self._named.values() for rank in members}
        for operation, members in self._named.items():
            for rank, line in members.items():
                self._add(line, rank, operation, "")
        open_numbers = [
            number for number, count in self._numbers.items() if len(self._named[number]) < count
        ]
        if len(open_numbers) == 1 and total <= _MOST_RANKS and named:
            line = min(line for members in self._named.values() for line in members.values())
            for rank in range(total):
                if rank not in named:
                    self._add(line, rank, open_numbers[0], "")
        self._operation, self._numbers, self._named = None, {}, {}

    def _add(self, line: int, rank: int, operation: int | None, status: str) -> None:
        self.add(
            line,
            job=self._file,
            source=_SOURCE,
            rank=rank,
            status=status,
            group=self._communicator,
            last_enqueued=operation,
        )
