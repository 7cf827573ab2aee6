"""What PyTorch's ``fr_trace`` prints of Flight Recorder dumps, alone or in ``fr_trace_*.txt``.

It names collectives that not all ranks of a group have joined, as records (``Not all ranks joining
collective, sequence number: 7``) or, in dumps of torch.distributed.debug, as rows of a table.

Tested in ``tests/ingest/logs/test_fr_trace_text.py``.
"""

import re
from dataclasses import dataclass, field

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import EVERY_LINE, anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.printed_tables import FR_TRACE
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_PROGRESS

_MOST_GROUPS = 10_000
_SET = r"\{\d{1,7}(?:, \d{1,7})*\}"
_BEGINS = re.compile(
    r"(?:Not all ranks joining collective, sequence number: (?P<seq>\d{1,18})|"
    r"Collective sequence number: (?P<error_seq>\d{1,18}) has errors)$"
)
_FIELD = re.compile(
    r"(?P<name>group info|collective|missing ranks|expected ranks|error msg): (?P<value>.+)$"
)
_ROW = re.compile(
    r" *\d+ +\S+ +(?:True|False) +(?P<seq>\d{1,18}) +\d+ +\d+  (?P<group>\S.*?) {2,}"
    rf"(?P<name>\w+:\S.*?) {{2,}}\[.*?\]  .*?(?P<expected>{_SET}) +\w+  +\[(?P<rest>.*)$"
)
_CULPRIT = re.compile(r"Culprit rank (\d{1,7}); Error type: (\w+)")
_TO_PEERS = re.compile(r":(?:send|recv)\b")
_WANTED = anywhere(_BEGINS.pattern, rf"{_SET} +\w+  +\[")


@dataclass(slots=True)
class _Group:
    """What is known of a group: the first collective that each rank lacks, the last it has."""

    line: int
    expected: set[int] = field(default_factory=set)
    lacks: dict[int, int] = field(default_factory=dict)
    has: dict[int, int] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)
    first: tuple[int, str] = (2**62, "")


class FrTraceText(PartReader):
    """How far each rank came in each group as rows of COLLECTIVE_PROGRESS."""

    TABLES = (COLLECTIVE_PROGRESS,)
    KIND = "report of PyTorch's fr_trace"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._groups: dict[str, _Group] = {}
        self._begun: dict[str, str] = {}
        self._line = 0

    @property
    def wanted(self) -> str:
        """Lines that begin a record and rows, and all within a record."""
        return EVERY_LINE if self._begun else _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        text = line.text.rstrip()
        if found := _BEGINS.match(text):
            self._line = line.number
            self._begun = {"seq": found["seq"] or found["error_seq"]}
        elif self._begun and (found := _FIELD.match(text)):
            self._begun[found["name"]] = found["value"]
            is_last = "missing ranks" in self._begun and found["name"] == "expected ranks"
            if is_last or found["name"] == "error msg":
                self._end_record()
        elif self._begun and line.number - self._line > 16:
            self._begun = {}
        elif found := _ROW.match(text):
            missing = re.findall(_SET, found["rest"].rpartition("]")[2])
            group = self._add_call(line.number, found["group"], int(found["seq"]), found["name"])
            self._join(group, int(found["seq"]), found["expected"], missing[0] if missing else "")

    def _end_record(self) -> None:
        said, self._begun = self._begun, {}
        seq, name = int(said["seq"]), said.get("collective", "")
        group = self._add_call(self._line, said.get("group info", ""), seq, name)
        self._join(group, seq, said.get("expected ranks", ""), said.get("missing ranks", ""))
        for rank, error in _CULPRIT.findall(said.get("error msg", "")):
            group.wrong.setdefault(int(rank), error)

    def _add_call(self, line: int, group: str, seq: int, name: str) -> _Group:
        # The peers of sends and receives differ by design: fr_trace calls the others missing.
        key = "" if _TO_PEERS.search(name) or len(self._groups) >= _MOST_GROUPS else group
        known = self._groups.setdefault(key, _Group(line))
        known.first = min(known.first, (seq, name))
        return known

    def _join(self, group: _Group, seq: int, expected: str, missing: str) -> None:
        ranks, absent = (
            {int(rank) for rank in re.findall(r"\d+", text)} for text in (expected, missing)
        )
        group.expected |= ranks
        for rank in absent:
            group.lacks[rank] = min(seq, group.lacks.get(rank, seq))
        for rank in ranks - absent:
            group.has[rank] = max(seq, group.has.get(rank, seq))

    def finish(self) -> None:
        """Add the ranks of each group that a collective waits in."""
        groups, self._groups = self._groups, {}
        for name, group in groups.items():
            number, _, description = name.partition(":")
            for rank in sorted(group.expected) if name else ():
                has, lacks = group.has.get(rank, -1), group.lacks.get(rank)
                self.add(
                    group.line,
                    job=self._file,
                    source=FR_TRACE,
                    rank=rank,
                    group=number,
                    description=description,
                    group_ranks=", ".join(map(str, sorted(group.expected))),
                    status=group.wrong.get(rank, ""),
                    last_enqueued=has if lacks is None or has > lacks else lacks - 1,
                    pending_name=group.first[1] if has >= group.first[0] else "",
                )
