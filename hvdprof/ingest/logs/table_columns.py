"""The columns of a table of throughputs by their names, and the numbers in its cells.

Tested in ``tests/ingest/logs/test_throughput_table.py``.
"""

import csv
import re
from dataclasses import dataclass

_NAMES_OF_RANKS = (
    r"(?:np|n|size|nproc|world[\s_]size|gpu[\s_]num|"
    r"(?:num[\s_]|number[\s_]of[\s_])?(?:gpus?|ranks|workers|processes))"
)
MAYBE_COLUMNS = rf"(?i)\b{_NAMES_OF_RANKS}[\"*`# _]*(?:[|\t;,\r\n]|$)"
"""Finds lines that may name a column of ranks, behind a log prefix too."""

_RANKS = re.compile(
    r"^(?:np|n|size|nproc|world_size|gpu_num|(?:num_|number_of_)?"
    r"(?:gpus?|ranks|workers|processes))$"
)
_RATE = re.compile(
    r"^(?:(?:total_)?(?:samples|images|imgs?|examples|sequences|seqs?|tokens|throughput)"
    r"_?(?:/|per|_per)_?(?:s|sec|second)|throughput|ips)(?:\b|_per_|_\()"
)
_OF_RANK = re.compile(r"(?:/|per_)(?:gpu|device|worker|chip|rank|process)(?![a-z])")
_SPEEDUP = re.compile(r"^(?:(?:stated_|measured_|actual_)?speed_?up|加速比)")
_LABEL = re.compile(
    r"^(?:model|network|engine|backend|framework|compression|reduction|precision|dtype|"
    r"(?:local_|global_|per_gpu_)?batch(?:_?size)?|bs|algorithm|config(?:uration)?|variant|mode)$"
)
_NUMBER = re.compile(r"^-?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:e[+-]?\d+)?$")
_DECIMAL_COMMA = re.compile(r"^-?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+$")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the columns of a table stand; ``others`` are those of no known meaning.

    ``rate`` is ``None`` in a table of speed-ups alone; ``is_of_rank`` where it is of one rank.
    """

    separator: str
    num_columns: int
    ranks: int
    rate: int | None
    speedup: int | None
    labels: tuple[int, ...]
    others: tuple[int, ...]
    is_of_rank: bool = False

    @property
    def last_needed(self) -> int:
        """The last column without which a line is no row."""
        result = self.speedup if self.rate is None else self.rate
        return max(self.ranks, result or 0)


def layout_of(text: str, own_rates: tuple[re.Pattern[str], ...]) -> Layout | None:
    """The layout of a line of column names; None without columns of ranks and of results.

    Args:
        text: The line.
        own_rates: What the column of the numbers may be called besides a rate of samples.
    """
    for separator in ("|", "\t", ";", ","):
        if separator not in text:
            continue
        names = [_name(cell) for cell in cells_of(text, separator)]
        ranks = [i for i, name in enumerate(names) if _RANKS.match(name)]
        if not ranks:
            continue
        rates = [
            i for i, name in enumerate(names) if any(r.match(name) for r in (_RATE, *own_rates))
        ]
        speedups = [i for i, name in enumerate(names) if _SPEEDUP.match(name)]
        if not (rates or speedups):
            continue
        labels = [i for i, name in enumerate(names) if _LABEL.match(name)]
        known = {*ranks, *rates, *speedups, *labels}
        return Layout(
            separator,
            len(names),
            ranks[0],
            rates[0] if rates else None,
            speedups[0] if speedups else None,
            tuple(labels),
            tuple(i for i in range(len(names)) if i not in known),
            bool(rates and _OF_RANK.search(names[rates[0]])),
        )
    return None


def cells_of(text: str, separator: str) -> list[str]:
    """The cells of a row, without quotation marks and emphasis."""
    if separator == "|":
        text = text.strip("|")
    # A number in quotation marks may hold the separator: "1,780".
    is_quoted = '"' in text and len(separator) == 1
    parts = next(csv.reader([text], delimiter=separator)) if is_quoted else text.split(separator)
    cells = [cell.strip().strip('"*` ') for cell in parts]
    if separator != ";":
        return cells
    # Spreadsheets separate by it where the comma is that of decimals, and the point of thousands.
    return [
        cell.replace(".", "").replace(",", ".") if _DECIMAL_COMMA.match(cell) else cell
        for cell in cells
    ]


def number_of(cell: str) -> float | None:
    """The number in a cell, ``1,190.5``, ``3.84x``; None where it is none, or beyond ``2**±63``.

    ``402,5`` is none: whether its comma is that of decimals is known with the separator alone.
    """
    plain = cell.replace(" ", "").rstrip("xX\N{MULTIPLICATION SIGN}")
    number = float(plain.replace(",", "")) if _NUMBER.match(plain) else None
    is_usual = number is not None and (number == 0 or 2**-63 <= abs(number) < 2**63)
    return number if is_usual else None


def _name(cell: str) -> str:
    return re.sub(r"[\s_]+", "_", cell.strip().strip("#*`").strip().lower()).replace("-", "")
