"""The processes whose NCCL lines are in a file: one, or several."""

import re
from bisect import bisect_left

import numpy as np

from hvdprof.ingest.nccl.line_prefixes import find_head, read_head
from hvdprof.ingest.text.found_lines import FEWEST_SEARCHED, Patterns
from hvdprof.ingest.text.line_filter import EVERY_LINE, any_of
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.ingest.text.printed_lines import Part, UntouchedLines


class NcclProcesses:
    """Looks at the prefix of NCCL's lines until two processes are known.

    Attributes:
        found: Host and process id as they stand in the lines, at most two.
    """

    def __init__(self) -> None:
        self.found: set[tuple[str, str]] = set()
        self._raw = self._known = ""
        self._looked_at: tuple[object, ...] = ()
        self._others: list[int] = []

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        head = None
        if len(self.found) < 2 and " NCCL " in line.text:
            head = find_head(line.text)
        if head is not None:
            said = read_head(head, line.rank, line.host)
            self.found.add((said.host, str(said.pid)))
            # Behind a log prefix, what stands at the beginning of a line is not what NCCL printed.
            if self._raw == line.text and not head.start() and not said.is_shortened:
                own = re.escape(f"{said.host}:{said.pid}:")
                self._known = rf"^{own}\d{{1,9}} \[\d{{1,4}}\] NCCL INFO "

    def read_ahead(self, part: Part, place: int, patterns: Patterns) -> int:
        """Pass over lines of a known process, as ``Ahead``, but for what patterns find."""
        if not isinstance(part, UntouchedLines) or len(part) < FEWEST_SEARCHED:
            return place
        self._raw = part.block.text(place)
        if len(self.found) != 1 or not self._known or EVERY_LINE in patterns:
            return place
        if self._looked_at != (part, patterns):
            self._looked_at = part, patterns
            is_other = np.ones(len(part), dtype=np.bool_)
            is_other[part.places(self._known)] = False
            is_other[part.places(any_of((*patterns, r"[<\r]")))] = True
            self._others = np.flatnonzero(is_other).tolist()
        after = bisect_left(self._others, place)
        return self._others[after] if after < len(self._others) else len(part)
