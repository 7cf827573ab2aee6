"""Rows of the tables that programs of nccl-tests print: columns, and whether numbers agree.

Tested in ``tests/ingest/logs/test_nccl_tests_output.py``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hvdprof.ingest.logs.algbw import is_consistent, moved_bytes

TYPES = r"(?:u?int(?:8|32|64)|half|float(?:16)?|double|bfloat16|f8e[45]m[23]|fp8_\w+?)"
_REDOPS = r"(?:sum|prod|max|min|avg|mulsum|none)"
# No number that would not fit its column.
_NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:e-\d\d|e\+00)?"
_HEAD = re.compile(
    r"^\s*(?P<size>\d[\d_]{0,17})\s+(?P<count>\d{1,18})\s+"
    rf"(?P<dtype>{TYPES})(?:\s+(?P<redop>{_REDOPS}))?"
)
_ROOTED_HEAD = re.compile(_HEAD.pattern + r"\s+(?P<root>-?\d{1,9})")
_COUNTED_HEAD = re.compile(r"^\s*(?P<size>\d[\d_]{0,17})\s+(?P<count>\d{1,18})(?=\s)")
_BARE_HEAD = re.compile(r"^\s*(?P<size>\d[\d_]{0,17})(?=\s)")
_MEASURED = rf"\s*(?P<time>{_NUMBER})\s+(?P<alg>{_NUMBER})\s+(?P<bus>{_NUMBER})"
_CHECKED = re.compile(rf"{_MEASURED}\s+(?P<check>N/A|{_NUMBER})")
_UNCHECKED = re.compile(_MEASURED)
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
class TestedRun:
    """One run of a program, as far as it was read; ``line`` is where it begins."""

    number: int
    line: int
    operation: str
    version: str
    layout: RowLayout | None = None
    hosts: set[str] = field(default_factory=set)
    highest_rank: int = -1
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
        np = self.highest_rank + 1
        is_possible = self.peak_row is None or _is_np_possible(np, self.peak_row)
        return np if np and is_possible else None


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
