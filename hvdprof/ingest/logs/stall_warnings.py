"""Horovod's stall warnings, in the format of every version.

Up to 0.13 one line ``Stalled ops: name [ready ranks: 1, 7], ...``; 0.14 to 0.16.1 ``Stalled ops:``
with ``name [missing ranks: 0]`` a line; 0.16.2 to 0.20.0 ``Stalled ranks:`` and from 0.20.1
``Missing ranks:`` with ``0: [name, name ...]``, where ``0!:`` is a rank for which the job is shut
down.
"""

import math
import re

from hvdprof.ingest.logs.horovod_log import LogHeader, LogLine
from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import EVERY_LINE, anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.log_tables import STALLS

OPENING = "One or more tensors were submitted to be reduced, gathered or broadcasted by subset"

_WAITED = re.compile(r"for more than (\d+(?:\.\d+)?) seconds")
_OPERATION = re.compile(
    r"(?<![^\s,[\]:])(?P<name>[^\s,[\]:]\S*) \[(?P<state>missing|ready) ranks: (?P<ranks>[\d, ]+)]"
)
_ALONE = re.compile(
    r"\s*(?:\S*Horovod(?:All|Broad)|(?:allreduce|allgather|broadcast)[._])\S* "
    r"\[(?:missing|ready) ranks: [\d, ]+\],?\s*"
)
_HEADLESS = re.compile(
    r"Stalled ops:|\[(?:missing|ready) ranks: \d|^(?:Missing|Stalled) ranks:\s*$|"
    r"gathered or broadcasted by subset of ranks and"
)
_WANTED = anywhere(re.escape(OPENING), _HEADLESS.pattern)
_RANK = re.compile(r"^(?P<rank>\d{1,9})(?P<fatal>!?): \[(?P<names>.*?)(?P<cut>,? ?\.\.\.)?\]\s*$")
_MORE_NAMES = re.compile(r"(?:\S+, )+\S*\s*|\s*(?:\S+, )*\S+\]\s*")
_OPEN_RANK = re.compile(r"^\d{1,9}!?: \[[^\[\]]*$")
# Old Horovod broke its long line where its buffer ended, also within a list of ranks.
_OPEN_LIST = re.compile(
    r"(?:(?<![^\s,[\]:])[^\s,[\]:]\S* \[(?:missing|ready) ranks: [\d, ]*|"
    r"(?:(?<=\], )|(?<=ops: ))[^\s,\[\]:]\S*(?: \[?[a-z: ]*)?)$"
)
_CONTINUED = re.compile(r"^\s*[\d, ]*\]|^\s*, ?\d")
# Lines of other ranks come between the lines of a warning.
_MOST_BETWEEN = 64


class StallWarnings(PartReader):
    """The ranks and tensors of every stall warning as rows of STALLS."""

    TABLES = (STALLS,)
    KIND = "Horovod stall warnings"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._header = LogHeader()
        self._num_warnings = 0
        self._waited_s = float("nan")
        self._time_ns: int | None = None
        self._patience = 0
        self._open_list = self._open_rank = ""
        self._open_line = 0
        self._seen: set[tuple[str, str]] = set()

    @property
    def wanted(self) -> str:
        """The line that opens a warning, and every line while ranks may follow."""
        return EVERY_LINE if self._patience > 0 else _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        begins = OPENING in line.text
        if not begins and self._patience <= 0 and not _HEADLESS.search(line.text):
            return
        log = self._header.parse(line)
        text = log.message if log else line.text
        if begins:
            self._begin(text, log)
            text = text[text.find(OPENING) + len(OPENING) :]
        elif self._patience <= 0:
            # The beginning of the warning is cut off.
            starts = ("Stalled ops:", "Missing ranks:", "Stalled ranks:")
            listed = _OPERATION.match(text.partition("Stalled ops: ")[2])
            is_alone = listed or _ALONE.fullmatch(text) or text.lstrip().startswith(starts)
            if log is None and not is_alone and not _waited(text) > 0:
                return
            self._begin(text, log)
            begins = True
        else:
            text = self._continued(text)
        text = self._of_open_rank(text, line.number)
        unfinished = _OPEN_LIST.search(text)
        self._open_list = unfinished[0] if unfinished else ""
        found = self._take_operations(text, line.number) or self._take_rank(text, line.number)
        self._patience = _MOST_BETWEEN if begins or found else self._patience - 1

    def kinds(self) -> list[str]:
        """``Horovod stall warnings`` where there is one, even without ranks."""
        return [self.KIND] if self._num_warnings else []

    def notes(self) -> list[Note]:
        """A warning whose list of ranks is not there."""
        if self._num_warnings and not len(self.rows):
            text = "its stall warnings name no rank: the lines after them are missing"
            return [Note(NoteCode.NO_RANKS, text)]
        return []

    def _continued(self, text: str) -> str:
        """A further line of a warning: its beginning may be broken over two lines."""
        if math.isnan(self._waited_s):
            self._waited_s = _waited(text)
        whole = self._open_list + text
        is_rest = self._open_list and (_CONTINUED.match(text) or _OPERATION.match(whole))
        return whole if is_rest else text

    def _of_open_rank(self, text: str, number: int) -> str:
        """A line with the list of a rank that is open before it; empty where it stays open."""
        if self._open_rank and _MORE_NAMES.fullmatch(text):
            text = self._open_rank + text.strip()
        else:
            self.finish()
        if _OPEN_RANK.match(text.strip()) is None:
            self._open_rank = ""
            return text
        self._open_line = self._open_line if self._open_rank else number
        self._open_rank = text.strip()
        return ""

    def finish(self) -> None:
        """Take an open list as one that is cut, without the name that it ends in."""
        names, comma, _ = self._open_rank.rpartition(", ")
        if comma:
            self._take_rank(f"{names} ...]", self._open_line)
        self._open_rank = ""

    def _begin(self, text: str, log: LogLine | None) -> None:
        self._num_warnings += 1
        self._seen = set()
        self._waited_s = _waited(text)
        self._time_ns = log.time_ns if log else None

    def _take_operations(self, text: str, number: int) -> bool:
        text = text.partition("Stalled ops:")[2] or text
        found = list(_OPERATION.finditer(text)) if " ranks: " in text else []
        for operation in found:
            stated = operation["name"], operation["state"]
            if stated in self._seen:
                # The next warning, whose beginning is cut off.
                self._begin("", None)
            self._seen.add(stated)
            for rank in re.findall(r"\d{1,9}", operation["ranks"]):
                self._add(number, int(rank), state=operation["state"], tensor=operation["name"])
        return bool(found)

    def _take_rank(self, text: str, number: int) -> bool:
        found = _RANK.match(text.strip())
        if found is None:
            return False
        for name in filter(None, found["names"].split(", ")):
            self._add(
                number,
                int(found["rank"]),
                state="missing",
                tensor=name,
                cut=bool(found["cut"]),
                shutdown=bool(found["fatal"]),
            )
        return True

    def _add(self, number: int, rank: int, **values: object) -> None:
        if rank < 2**31:
            self.add(
                number,
                time_ns=self._time_ns,
                warning=self._num_warnings - 1,
                waited_s=self._waited_s,
                stalled_rank=rank,
                **values,
            )


def _waited(text: str) -> float:
    found = _WAITED.search(text)
    return float(found.group(1)) if found else float("nan")
