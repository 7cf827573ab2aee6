"""Tables of (number of ranks, samples per second): CSV, tab-separated or a page in Markdown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.logs.table_columns import MAYBE_COLUMNS, Layout, cells_of, layout_of, number_of
from hvdprof.ingest.text.line_filter import EVERY_LINE
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.log_tables import THROUGHPUT
from hvdprof.units import counted

_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
_RULE = re.compile(r"^[\s|:+-]+$")
_PAIR = re.compile(r"^\s*(\d{1,7})\s*[,;\t ]\s*(\d+(?:\.\d+)?)\s*$")
_LONGEST_HEADER = 1000
_MOST_ROWS = 100_000
_WANTED = rf"(?:^|[ \t:])#{{1,6}}\s+[^\s#]|{MAYBE_COLUMNS}"


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    np: int
    rate: float
    speedup: float
    labels: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(slots=True)
class _OpenTable:
    """One table whose rows come; ``header`` is its line of column names."""

    layout: Layout
    header: str
    title: str
    rows: list[_Row] = field(default_factory=list)


class ThroughputTable(PartReader):
    """Rows of (number of ranks, samples/s) as THROUGHPUT, one series for each table and label.

    A rate per GPU, device, worker ... is multiplied by the number of ranks.

    Without a line of column names, a file that holds nothing but pairs of numbers counts.

    Args:
        file: Name of the file, for the rows.
        own_rate: What the column of the numbers may be called besides a rate of samples.
    """

    TABLES = (THROUGHPUT,)
    KIND = "throughput table"

    def __init__(self, file: str, *, own_rate: re.Pattern[str] | None = None) -> None:
        super().__init__(file)
        self._own_rate = own_rate
        self._headings: dict[int, str] = {}
        self._table: _OpenTable | None = None
        self._titles: dict[str, int] = {}
        self._skipped: list[int] = []
        self._is_end_cut = False
        self._pairs: list[tuple[int, int, float]] | None = []

    @property
    def wanted(self) -> str:
        """Headings and names of columns; every line in a table, or while all are pairs."""
        return _WANTED if self._pairs is None and self._table is None else EVERY_LINE

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        text = line.text.strip()
        self._take_pair(text, line.number)
        if self._table is not None and self._take_row(text, line.number, self._table):
            return
        heading = _HEADING.match(text) if len(text) < _LONGEST_HEADER else None
        if heading is not None:
            self._end_table()
            self._take_heading(len(heading.group(1)), heading.group(2))
        else:
            self._begin_table(text)

    def end_within(self, number: int) -> None:
        """Leave out a last row whose number lacks digits: it is far below the row before it."""
        rows, pairs = self._table.rows if self._table else [], self._pairs or []
        is_low = len(rows) < 2 or rows[-1].rate < rows[-2].rate / 5
        self._is_end_cut = bool(rows) and rows[-1].line == number and is_low
        del rows[len(rows) - self._is_end_cut :]
        if pairs and (len(pairs) < 2 or pairs[-1][2] < pairs[-2][2] / 5):
            pairs.pop()

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """THROUGHPUT."""
        self._end_table()
        pairs = self._pairs or []
        if len(pairs) > 1:
            for number, np, rate in pairs:
                self.add(number, series="", np=np, samples_per_s=rate)
        self._pairs = None
        return super().tables()

    def kinds(self) -> list[str]:
        """``throughput table`` where there is a row of one."""
        self._end_table()
        pairs = self._pairs or []
        return [self.KIND] if len(self.rows) or len(pairs) > 1 else []

    def notes(self) -> list[Note]:
        """Rows of tables that hold no number."""
        self._end_table()
        cut = "1 row of the throughput table omitted: the file ends within it"
        ends = [Note(NoteCode.OMITTED, cut, number=1)] * self._is_end_cut
        if not (self._skipped and len(self.rows)):
            return ends
        number, first = len(self._skipped), self._skipped[0]
        where = f"of the throughput table skipped, first line {first}: no number"
        return [*ends, Note(NoteCode.OMITTED, f"{counted(number, 'row')} {where}", number=number)]

    def _take_pair(self, text: str, number: int) -> None:
        if self._pairs is None or not text or text.startswith("#"):
            return
        pair = _PAIR.match(text)
        if pair is None or int(pair.group(1)) == 0:
            self._pairs = None
        else:
            self._pairs.append((number, int(pair.group(1)), float(pair.group(2))))

    def _take_heading(self, level: int, title: str) -> None:
        self._headings = {at: text for at, text in self._headings.items() if at < level}
        self._headings[level] = title

    def _begin_table(self, text: str) -> None:
        layout = self._layout_of(text)
        # Of CSV files put together, each begins with the same line.
        if layout is not None and self._table is not None and text == self._table.header:
            return
        self._end_table()
        if layout is not None:
            self._table = _OpenTable(layout, text, ", ".join(self._headings.values()))

    def _take_row(self, text: str, number: int, table: _OpenTable) -> bool:
        """Whether a line belongs to the table; a row without a number is skipped."""
        if _RULE.match(text) and text:
            return True
        layout = table.layout
        cells = cells_of(text, layout.separator)
        if layout.separator not in text or len(cells) <= layout.last_needed:
            return False
        np, rate = number_of(cells[layout.ranks]), _at(cells, layout.rate)
        speedup = _at(cells, layout.speedup)
        result = speedup if layout.rate is None else rate
        if np is None and result is None and not self._may_be_row(text, cells, layout):
            return False
        if np is None or result is None or not 0 < np < 2**31 or np != int(np):
            self._skipped.append(number)
            return True
        row = _Row(
            number,
            int(np),
            float("nan") if rate is None else rate * (np if layout.is_of_rank else 1),
            float("nan") if speedup is None else speedup,
            tuple(cells[at] for at in layout.labels if at < len(cells) and cells[at]),
            tuple(cells[at] if at < len(cells) else "" for at in layout.others),
        )
        table.rows.append(row)
        if len(table.rows) >= _MOST_ROWS:
            self._give_rows(table)
            table.rows.clear()
        return True

    def _layout_of(self, text: str) -> Layout | None:
        own = (self._own_rate,) if self._own_rate else ()
        return layout_of(text, own) if len(text) < _LONGEST_HEADER else None

    def _may_be_row(self, text: str, cells: list[str], layout: Layout) -> bool:
        """Whether a line without numbers is a row of a failed run, and neither names nor prose."""
        if len(cells) != layout.num_columns:
            return False
        result = layout.speedup if layout.rate is None else layout.rate
        is_prose = any(" " in cells[at] for at in (layout.ranks, result or 0))
        return not is_prose and self._layout_of(text) is None

    def _end_table(self) -> None:
        table, self._table = self._table, None
        if table is not None and table.rows:
            self._give_rows(table)

    def _give_rows(self, table: _OpenTable) -> None:
        number = self._titles[table.title] = self._titles.get(table.title, 0) + 1
        title = table.title if number == 1 else f"{table.title} (table {number})".strip()
        distinguishing = _distinguishing(table.rows)
        for row in table.rows:
            texts = [row.texts[at] for at in distinguishing if row.texts[at]]
            self.add(
                row.line,
                series=", ".join(filter(None, [title, *row.labels, *texts])),
                np=row.np,
                samples_per_s=row.rate,
                stated_speedup=row.speedup,
            )


def _at(cells: list[str], column: int | None) -> float | None:
    return number_of(cells[column]) if column is not None and column < len(cells) else None


def _distinguishing(rows: list[_Row]) -> list[int]:
    """Further columns of words that distinguish rows of one label and number of ranks.

    Such a column names a variant (a framework, a GPU) where every variant has several rows; one
    whose every row is different (a date, a job) names none.
    """
    found: list[int] = []
    for at in range(len(rows[0].texts)):
        values = [row.texts[at] for row in rows]
        is_text = not any(number_of(value) is not None for value in values)
        if not is_text or not 1 < len(set(values)) <= len(rows) // 2:
            continue
        keys = [(row.labels, row.np, tuple(row.texts[i] for i in found)) for row in rows]
        if len(set(keys)) < len(set(zip(keys, values, strict=True))):
            found.append(at)
    return found
