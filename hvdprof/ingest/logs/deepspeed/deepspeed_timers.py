"""The timers of ``wall_clock_breakdown`` of DeepSpeed: one line for each optimizer step.

``[Rank 0] time (ms) | fwd: 1.0 | bwd: 3.0 | bwd_inner: 2.0 | bwd_allreduce: 1.0 | step: 0.5``, in
older versions with ``forward`` and ``backward``. Lines of micro-batches (``fwd_microstep``) say the
same of parts of the step, and are not read. One rank prints, usually rank 0.

Tested in ``tests/ingest/logs/deepspeed/test_deepspeed_timers.py``.
"""

import re

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import EVERY_LINE, anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.printed_tables import DEEPSPEED_TIMERS, RANK_TIMERS

_NUMBER = r"(\d{1,12}(?:\.\d{1,6})?)"
_BEGIN = re.compile(r"(?:\[Rank (\d{1,7})\]\s+)?(?:rank=(\d{1,7})\s+)?time \(ms\) \|")
_RECORD = re.compile(
    rf"{_BEGIN.pattern}(?: \w{{1,60}}: [\d.]{{1,20}} \|){{0,8}} (?:fwd|forward): {_NUMBER} \| "
    rf"(?:bwd|backward): {_NUMBER} \| (?:bwd|backward)_inner: {_NUMBER} \| "
    rf"(?:bwd|backward)_allreduce: {_NUMBER} \| step: {_NUMBER}(?![\d.])"
)
_MOST_PIECES = 4


class DeepSpeedTimers(PartReader):
    """The times of each step of the rank that prints, as rows of RANK_TIMERS."""

    TABLES = (RANK_TIMERS,)
    KIND = "DeepSpeed timers"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._pieces: list[str] = []
        self._held: list[tuple[PrintedLine, re.Match[str]]] = []

    @property
    def wanted(self) -> str:
        """The beginnings of records; every line behind one, where it may be wrapped."""
        return EVERY_LINE if self._pieces or self._held else anywhere(r"time \(ms\) \|")

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        self.finish()
        # A search alone costs milliseconds on a piece of a line without end.
        begin = _BEGIN.search(line.text) if "time (ms) |" in line.text else None
        if begin is None and not self._pieces:
            return
        self._pieces = [line.text] if begin else [*self._pieces, line.text]
        # A terminal breaks a record anywhere, a logger between words.
        for whole in ("".join(self._pieces), " ".join(map(str.strip, self._pieces))):
            if found := list(_RECORD.finditer(whole)):
                self._held = [(line, one) for one in found]
                self._pieces = []
                return
        if len(self._pieces) == _MOST_PIECES:
            self._pieces = []

    def end_within(self, number: int) -> None:
        """Leave out a last number that may lack digits."""
        self._held = [one for one in self._held if one[1].end() < len(one[1].string)]

    def finish(self) -> None:
        """Add the timers of records that waited for others."""
        held, self._held = self._held, []
        for line, found in held:
            stated = found[1] or found[2]
            rank = int(stated) if stated else line.rank
            for name, time in zip(DEEPSPEED_TIMERS, found.groups()[2:], strict=True):
                length = round(float(time) * 1e6)
                self.add(
                    line.number,
                    timer=name,
                    min_ns=length,
                    max_ns=length,
                    num_ranks=1,
                    slowest_rank=rank,
                )
