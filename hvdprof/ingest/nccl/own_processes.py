"""The processes whose NCCL lines are in a file: one, or several."""

import re
from bisect import bisect_left

import numpy as np

from hvdprof.ingest.nccl.line_prefixes import find_head, read_head
from hvdprof.ingest.text.found_lines import FEWEST_SEARCHED, Patterns
from hvdprof.ingest.text.line_filter import any_of
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.ingest.text.printed_lines import Part, UntouchedLines


class NcclProcesses:
    """Looks at the prefix of NCCL's lines until two processes are known.

    Attributes:
        found: Host and process id as they stand in the lines, at most two.
    """

    def __init__(self) -> None:
        self.found: set[tuple[str, str]] = set()
        self._place: tuple[Part, int] | None = None
        self._known = ""
        self._looked_at: tuple[object, ...] = ()
        self._others: list[int] = []

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        if len(self.found) > 1 or " NCCL " not in line.text:
            return
        head = find_head(line.text)
        if head is None:
            return
        said = read_head(head, line.rank, line.host)
        self.found.add((said.host, str(said.pid)))
        if self._place is None or head.start() or head["host"] is None or head["pid"] is None:
            return
        part, place = self._place
        if isinstance(part, UntouchedLines) and part.block.text(place) == line.text:
            own = re.escape(f"{said.host}:{said.pid}:")
            self._known = rf"^{own}\d{{1,9}} \[\d{{1,4}}\] NCCL INFO [^<\r\n]*\n?$"

    def read_ahead(self, part: Part, place: int, patterns: Patterns) -> int:
        """Pass over lines of a known process, as ``Ahead``, but for what patterns find."""
        self._place = part, place
        is_searched = isinstance(part, UntouchedLines) and len(part) >= FEWEST_SEARCHED
        if len(self.found) != 1 or not self._known or not is_searched:
            return place
        if self._looked_at != (part, self._known, patterns):
            self._looked_at = part, self._known, patterns
            is_other = np.ones(len(part), dtype=np.bool_)
            is_other[part.places(self._known)] = False
            is_other[part.places(any_of(patterns))] = True
            self._others = np.flatnonzero(is_other).tolist()
        after = bisect_left(self._others, place)
        return self._others[after] if after < len(self._others) else len(part)
