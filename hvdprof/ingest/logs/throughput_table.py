"""Tables of (number of ranks, samples per second): CSV, tab-separated or a page in Markdown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.logs.printed_lines import PrintedLine
from hvdprof.model.tables.log_tables import THROUGHPUT

_RANKS = re.compile(
    r"^(?:np|n|size|nproc|world_size|gpu_num|(?:num_|number_of_)?"
    r"(?:gpus?|ranks|workers|processes))$"
)
_RATE = re.compile(
    r"^(?:(?:total_)?(?:samples|images|imgs?|examples|sequences|seqs?|tokens|throughput)"
    r"_?(?:/|per|_per)_?(?:s|sec|second)|throughput|ips)\b"
)
_SPEEDUP = re.compile(r"^(?:speed_?up|加速比)")
_LABEL = re.compile(
    r"^(?:model|network|engine|compression|reduction|precision|dtype|batch(?:_size)?)$"
)
_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
_RULE = re.compile(r"^[\s|:+-]+$")
_NUMBER = re.compile(r"^-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?$")
_PAIR = re.compile(r"^\s*(\d{1,7})\s*[,;\t ]\s*(\d+(?:\.\d+)?)\s*$")


@dataclass(frozen=True, slots=True)
class _Layout:
    separator: str
    ranks: int
    rate: int
    speedup: int | None
    labels: tuple[int, ...]


class ThroughputTable(PartReader):
    """Rows of (number of ranks, samples/s) as THROUGHPUT.

    Without a line of column names, a file that holds nothing but pairs of numbers counts.

    Args:
        file: Name of the file, for the rows.
        own_rate: What the column of the numbers may be called besides a rate of samples.
    """

    TABLES = (THROUGHPUT,)
    KIND = "throughput table"

    def __init__(self, file: str, *, own_rate: re.Pattern[str] | None = None) -> None:
        super().__init__(file)
        self._rates = (_RATE,) if own_rate is None else (_RATE, own_rate)
        self._headings: dict[int, str] = {}
        self._layout: _Layout | None = None
        self._pairs: list[tuple[int, int, float]] | None = []

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        text = line.text.strip()
        self._take_pair(text, line.number)
        if self._layout is not None and self._take_row(text, line.number, self._layout):
            return
        heading = _HEADING.match(text)
        if heading is not None:
            self._take_heading(len(heading.group(1)), heading.group(2))
        else:
            self._layout = _layout_of(text, self._rates) if len(text) < 1000 else None

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """THROUGHPUT."""
        pairs = self._pairs or []
        if len(pairs) > 1:
            for number, np, rate in pairs:
                self._add(number, "", np, rate)
        self._pairs = None
        return super().tables()

    def kinds(self) -> list[str]:
        """``throughput table`` where there is a row of one."""
        pairs = self._pairs or []
        return [self.KIND] if len(self.rows) or len(pairs) > 1 else []

    def _take_pair(self, text: str, number: int) -> None:
        if self._pairs is None or not text or text.startswith("#"):
            return
        pair = _PAIR.match(text)
        if pair is None or int(pair.group(1)) == 0:
            self._pairs = None
        else:
            self._pairs.append((number, int(pair.group(1)), float(pair.group(2))))

    def _take_heading(self, level: int, title: str) -> None:
        self._layout = None
        self._headings = {at: text for at, text in self._headings.items() if at < level}
        self._headings[level] = title

    def _take_row(self, text: str, number: int, layout: _Layout) -> bool:
        if _RULE.match(text) and text:
            return True
        cells = _cells(text, layout.separator)
        if len(cells) <= max(layout.ranks, layout.rate):
            return False
        np, rate = _value(cells[layout.ranks]), _value(cells[layout.rate])
        if np is None or rate is None or not 0 < np < 2**31 or np != int(np):
            return False
        speedup = None
        if layout.speedup is not None and layout.speedup < len(cells):
            speedup = _value(cells[layout.speedup])
        labels = [cells[at] for at in layout.labels if at < len(cells) and cells[at]]
        self._add(number, ", ".join(labels), int(np), rate, speedup)
        return True

    def _add(
        self, number: int, label: str, np: int, rate: float, speedup: float | None = None
    ) -> None:
        self.add(
            number,
            series=", ".join(filter(None, [*self._headings.values(), label])),
            np=np,
            samples_per_s=rate,
            stated_speedup=float("nan") if speedup is None else speedup,
        )


def _layout_of(text: str, known: tuple[re.Pattern[str], ...]) -> _Layout | None:
    for separator in ("|", "\t", ";", ","):
        if separator not in text:
            continue
        names = [_name(cell) for cell in _cells(text, separator)]
        ranks = [i for i, name in enumerate(names) if _RANKS.match(name)]
        rates = [i for i, name in enumerate(names) if any(rate.match(name) for rate in known)]
        speedups = [i for i, name in enumerate(names) if _SPEEDUP.match(name)]
        labels = tuple(i for i, name in enumerate(names) if _LABEL.match(name))
        if ranks and rates:
            speedup = speedups[0] if speedups else None
            return _Layout(separator, ranks[0], rates[0], speedup, labels)
    return None


def _name(cell: str) -> str:
    return re.sub(r"[\s_]+", "_", cell.strip().strip("#*`").strip().lower()).replace("-", "")


def _cells(text: str, separator: str) -> list[str]:
    if separator == "|":
        text = text.strip("|")
    return [cell.strip().strip('"*` ') for cell in text.split(separator)]


def _value(cell: str) -> float | None:
    plain = cell.replace(" ", "").removesuffix("x")
    return float(plain.replace(",", "")) if _NUMBER.match(plain) else None
