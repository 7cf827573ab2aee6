"""Rows of the tables that programs of nccl-tests print: columns, and whether numbers agree.

Tested in ``tests/ingest/logs/test_nccl_tests_output.py``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hvdprof.ingest.logs.nccl_tests.algbw import is_consistent, moved_bytes
from hvdprof.ingest.text.log_lines import PrintedLine

TYPES = r"(?:u?int(?:8|32|64)|half|float(?:16)?|double|bfloat16|f8e[45]m[23]|fp8_\w+?)"
_REDOPS = r"(?:sum|prod|max|min|avg|mulsum|none)"
# No number that would not fit its column.
_NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:e-\d\d|e\+00)?"
_HEAD = re.compile(
    r"^\s*(?P<size>\d[\d_]{0,17})\s+(?P<count>\d{1,18})\s+"
    rf"(?P<dtype>{TYPES})(?:\s+(?P<redop>{_REDOPS}))?"
)
_ROOTED_HEAD = re.compile(_HEAD.pattern + r"\s+(?P<root>-?\d{1,9})")
_COUNTED_HEAD = re.compile(r"^\s*(?P<size>\d[\d_]{0,17})\s+(?P<count>\d{1,18})(?=\s|$)")
_BARE_HEAD = re.compile(r"^\s*(?P<size>\d[\d_]{0,17})(?=\s)")
_MEASURED = rf"\s*(?P<time>{_NUMBER})\s+(?P<alg>{_NUMBER})\s+(?P<bus>{_NUMBER})"
_CHECKED = re.compile(rf"{_MEASURED}\s+(?P<check>N/A|{_NUMBER})")
_UNCHECKED = re.compile(_MEASURED)
_COLUMNS = re.compile(r"^\s*#?\s*size(?:\s+[a-z#]+)*\s+(?:cpu)?time\s+algbw\s+busbw(?:\s.*)?$")
_NAMES = re.compile(r"(?!\s*\d)[\sa-z0-9_#%]+")
_NUMERIC = re.compile(r"[\s\d.e/NA+-]{0,200}")
_BESIDE = re.compile(r"algbw.*\|.*algbw")


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns of a table.

    ``head`` matches those before the measurements. ``check`` is the column of NCCL_TESTS behind
    each of these, empty without one. ``places`` says of each measurement whether it is in place,
    None where the table does not say. ``is_beside`` says that another table stands to the right.
    ``num_more`` columns stand behind each measurement (``-I``). ``is_issue``: the times are those
    of the call on the host (``-C 1``), from which no bandwidth follows.
    """

    head: re.Pattern[str]
    check: str
    places: tuple[bool | None, ...]
    is_beside: bool = False
    num_more: int = 0
    is_issue: bool = False

    @property
    def is_head_certain(self) -> bool:
        """Whether a head is more than numbers."""
        return self.head not in (_COUNTED_HEAD, _BARE_HEAD)

    @property
    def measured(self) -> re.Pattern[str]:
        """One measurement: ``time``, ``alg``, ``bus`` and, where there is one, ``check``."""
        measured = _CHECKED if self.check else _UNCHECKED
        if not self.num_more:
            return measured
        return re.compile(rf"{measured.pattern}(?:\s+\S+){{{self.num_more}}}")


@dataclass(slots=True)
class PartialRow:
    """A row as far as it was read: its head, and the measurements behind it."""

    line: int
    head: Mapping[str, str | None]
    measured: list[re.Match[str] | Mapping[str, str]] = field(default_factory=list)
    rest: str = ""

    def take(self, text: str, layout: RowLayout) -> bool:
        """Read on in the rest of the row; whether it is whole then.

        Terminals wrap a row anywhere, and the lines of other writers come between.
        """
        wholes = (self.rest + text, text)
        text = next((whole for whole in wholes if layout.measured.match(whole)), "")
        if not text:
            self.rest += wholes[1] if _NUMERIC.fullmatch(wholes[1]) else ""
            return False
        while (found := layout.measured.match(text)) and len(self.measured) < len(layout.places):
            self.measured.append(found)
            text = text[found.end() :]
        self.rest = text if _NUMERIC.fullmatch(text) else ""
        return len(self.measured) == len(layout.places)

    @property
    def size_bytes(self) -> int:
        """The size that the row states."""
        return int((self.head["size"] or "0").replace("_", ""))

    @property
    def is_consistent(self) -> bool:
        """Whether ``algbw`` of each measurement is the size divided by the time."""
        count, dtype = self.head.get("count"), self.head.get("dtype")
        sizes = list(moved_bytes(self.size_bytes, int(count or 0), dtype or ""))
        return all(
            any(is_consistent(size, found["time"], found["alg"]) for size in sizes)
            for found in self.measured
        )


@dataclass(slots=True)
class WrappedNames:
    """The last line of column names, which a terminal may wrap."""

    text: str = ""
    line: int = 0

    def take(self, text: str, line: int) -> tuple[str, bool]:
        """The column names of a line, or of the line before with it, and whether it had some."""
        before, number = self.text, self.line
        self.text, self.line = "", line
        if before and line == number + 1 and "size" not in text and _NAMES.fullmatch(text):
            had_some = _COLUMNS.match(before) is not None
            return (before + text if _COLUMNS.match(before + text) else ""), had_some
        self.text = text if "size " in text and _NAMES.fullmatch(text) else ""
        return (text if _COLUMNS.match(text) else ""), False


@dataclass(slots=True)
class TestedRun:
    """One run of a program, as far as it was read; ``line`` is where it begins."""

    number: int
    line: int
    operation: str
    version: str
    layout: RowLayout | None = None
    hosts: set[str] = field(default_factory=set)
    highest_rank: int = -1
    last_listed: int = 0
    is_list_cut: bool = False
    device: str = ""
    num_sizes: int = 0
    num_damaged: int = 0
    num_refused: int = 0
    half_rows: list[PartialRow] = field(default_factory=list)
    num_wrong: int | None = None
    peak: tuple[float, int | None] = (float("nan"), None)
    peak_row: PartialRow | None = None
    average: float = float("nan")
    failed: bool = False
    ended: bool = False

    @property
    def np(self) -> int | None:
        """The ranks of its list of devices; None without one, and where the list lacks some."""
        np = 0 if self.is_list_cut else self.highest_rank + 1
        is_possible = self.peak_row is None or _is_np_possible(np, self.peak_row)
        return np if np and is_possible else None

    def end_within(self, line: PrintedLine, *, is_row: bool) -> None:
        """The file ends within this line, which may be known to be a row."""
        self.is_list_cut = self.layout is None and 0 < line.number - 1 <= self.last_listed
        begins = self.layout is not None and _COUNTED_HEAD.match(line.text) is not None
        if begins and not is_row and (self.peak_row is None or self.peak_row.line != line.number):
            self.num_damaged += 1


def layout_of_row(text: str) -> RowLayout | None:
    """The layout of a whole row, of which each number agrees with the others."""
    for check, head in (("num_wrong", _ROOTED_HEAD), ("max_error", _HEAD)):
        begins = head.match(text)
        first = _CHECKED.match(text, begins.end()) if begins else None
        second = _CHECKED.match(text, first.end()) if first else None
        if begins is None or first is None or second is None or text[second.end() :].strip():
            continue
        row = PartialRow(0, begins.groupdict(), [first, second])
        if row.size_bytes and row.is_consistent:
            return RowLayout(head, check, (False, True))
    return None


def layout_of_names(text: str, in_place_first: bool) -> RowLayout:
    """The layout that a line of column names gives.

    Args:
        text: The line.
        in_place_first: Whether the first measurement is the one in place.
    """
    names = text.partition("|")[0].replace("#wrong", "wrong").replace("#", " ").split()
    check = "num_wrong" if "wrong" in names else "max_error" if "error" in names else ""
    bare = _COUNTED_HEAD if "count" in names else _BARE_HEAD
    head = _ROOTED_HEAD if "root" in names else _HEAD if "type" in names else bare
    both = (True, False) if in_place_first else (False, True)
    is_issue = "cputime" in names
    times = [
        place for place, name in enumerate(names) if name == ("cputime" if is_issue else "time")
    ]
    places = both if len(times) > 1 else (None,)
    # A time, two bandwidths and a check; behind the last measurement nothing more is needed.
    num_more = times[1] - times[0] - 3 - bool(check) if len(times) > 1 else 0
    is_beside = _BESIDE.search(text) is not None
    return RowLayout(head, check, places, is_beside, max(num_more, 0), is_issue)


def _is_np_possible(np: int, row: PartialRow) -> bool:
    """Whether the bandwidths of a row can be those of some ranks: a list may lack some.

    Bus bandwidth is algorithm bandwidth by a factor of the ranks: ``2 (n - 1) / n``,
    ``(n - 1) / n``, or 1 without a reduction over all ranks.
    """
    if not np:
        return False
    algbw, busbw = (float(row.measured[0][name]) for name in ("alg", "bus"))
    of_all = row.head.get("redop") not in (None, "none") and row.head.get("root") == "-1"
    factors = [2 * (np - 1) / np, (np - 1) / np, *([] if of_all else [1.0])]
    # Both are rounded to hundredths.
    return algbw < 1 or any(abs(busbw - factor * algbw) <= 0.02 * algbw for factor in factors)


def runs_text(lines: list[int]) -> str:
    """``the run that begins in line 7``, or how many begin in some lines and where the first."""
    begins = f"the run that begins in line {lines[0]}"
    return f"{len(lines)} runs, first in {begins}" if len(lines) > 1 else begins
