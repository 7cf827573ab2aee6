"""The status of NCCL's RAS subsystem as text (``ncclras``, NCCL 2.24 and later).

A table has one row for communicators that are alike, with what is wrong with them. Below it stand
processes and ranks without an answer and, for a communicator whose ranks differ, how many launched
up to which operation of each kind. Ranks are named where they are few: the others are those of the
one number whose ranks are not all named. ``ncclras -m`` prints processes alone, as they die.
"""

import re

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_PROGRESS, RAS_STATEMENTS

_SOURCE = "ras"
_MOST_RANKS = 1_000_000
_ROW = re.compile(
    r"^(?P<group>\d{1,6}) +(?P<number>\d{1,7}) +\d{1,7} +\d{1,7}(?:-\d{1,7})? +(?P<ranks>\d{1,7}) +"
    r"\d{1,7} +(?P<status>INIT|RUNNING|FINALIZE|ABORT|NOCOMM) +(?P<problem>[A-Z]+(?:,[A-Z]+)*)$"
)
_COMMUNICATOR = re.compile(r"^#(\d+)-\d+ \(([0-9a-f]{1,16})\) (MISMATCH|INCOMPLETE|ERROR)")
_PROCESSES = re.compile(
    r"^(?:Missing communicator data from \d+ job process|"
    r"\d+ job process(?:es are| is) (considered))"
)
_PROCESS = re.compile(
    r"^(?P<event>(?:\[[^\]]{19}\] )?PEER_DEAD: )?Process (?P<pid>\d{1,18}) "
    r"on node (?P<host>\S+) managing GPUs? (?P<gpu>\d.*)$"
)
_DIFFERENT = re.compile(r"^Communicator ranks have different (?:(\w+) operation counts|status)")
_SAID = (
    r"ha(?:s|ve) (?:launched up to operation (?P<operation>\d{1,18})\b|"
    r"(?P<none>not) launched any operations|status (?P<status>[A-Z]+))|"
    r"reported (?P<error>[A-Z][\w ]*)"
)
_COUNT = re.compile(rf"^(?P<number>\d{{1,7}}) ranks? (?:{_SAID})")
_RANK = re.compile(
    rf"^Rank (?P<rank>\d{{1,7}})(?: (?:{_SAID}))? ?-- (?:\[process|GPU(?: (?P<gpu>\d+(?: \(NVML "
    r"\d+\))?) managed by process (?P<pid>\d{1,18}) on node (?P<host>\S+))?)"
)
_WITHOUT_DATA = re.compile(r"^Missing communicator data from (\d{1,7}) ranks?$")
_MISSING = re.compile(r"^The missing ranks?: (\d{1,7}(?:,\d{1,7})*)")
_WANTED = anywhere(
    r"\) MISMATCH", r"\) INCOMPLETE", r"\) ERROR", "launched up to operation", "launched any",
    r"Rank \d+ .*-- (?:GPU|\[process)", "The missing rank", r"communicator data from \d+ ranks?",
    r" managing GPUs? ", " job process",
    r"(?:INIT|RUNNING|FINALIZE|ABORT|NOCOMM) +[A-Z]", "Communicator ranks have different",
    r"\d ranks (?:have status|reported) [A-Z]",
)  # fmt: skip


class RasText(PartReader):
    """Ranks and communicators as rows of COLLECTIVE_PROGRESS and RAS_STATEMENTS."""

    TABLES = (COLLECTIVE_PROGRESS, RAS_STATEMENTS)
    KIND = "NCCL RAS report"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        # The ranks of each communicator of a group, by the number of its row in the table.
        self._sizes: dict[str, int] = {}
        self._size: int | None = None
        self._communicator, self._problem, self._collective = "", "", ""
        self._said: tuple[int | None, str] = None, ""
        # By operation the number of ranks and those that are named.
        self._numbers: dict[int, int] = {}
        self._named: dict[int, set[int]] = {}
        self._line = 0

    @property
    def wanted(self) -> str:
        """Lines on communicators, their ranks and processes."""
        return _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        text = line.text.strip()
        if found := _ROW.match(text):
            self._sizes[found["group"]] = int(found["ranks"])
            self._state(
                line,
                problem=found["problem"],
                num_communicators=int(found["number"]),
                num_ranks=int(found["ranks"]),
            )
        elif found := _COMMUNICATOR.match(text):
            self._begin(found[2], found[3])
            self._size = self._sizes.get(found[1])
            self._state(line, problem=found[3], communicator=found[2])
        elif found := _PROCESSES.match(text):
            self._begin("", "DEAD" if found[1] else "INCOMPLETE")
            self._state(line, problem=self._problem)
        elif (found := _PROCESS.match(text)) and (self._problem or found["event"]):
            process = found.groupdict()
            problem = "DEAD" if process.pop("event") else self._problem
            self._state(line, problem=problem, **process | {"pid": int(process["pid"])})
        elif self._communicator and (found := _WITHOUT_DATA.match(text)):
            known = {"problem": self._problem, "communicator": self._communicator}
            self._state(line, num_ranks=int(found[1]), **known)
        elif self._communicator:
            self._take_ranks(line, text)

    def kinds(self) -> list[str]:
        """``NCCL RAS report`` where one is in the file."""
        self.finish()
        return [self.KIND] if any(len(rows) for rows in self._rows.values()) else []

    def _take_ranks(self, line: PrintedLine, text: str) -> None:
        """A line on ranks of the communicator that is open."""
        if found := _MISSING.match(text):
            for rank in found[1].split(","):
                self._add(line.number, int(rank), status="missing")
        elif found := _DIFFERENT.match(text):
            self.finish()
            # The first versions count all kinds: "different collective operation counts".
            self._collective = "" if found[1] in (None, "collective") else found[1]
        elif found := _COUNT.match(text):
            operation, _ = self._said = _said(found)
            if operation is not None:
                self._count(line, operation, int(found["number"]))
        elif found := _RANK.match(text):
            operation, status = said = _said(found)
            if said == (None, ""):
                operation, status = self._said
            elif operation is not None:
                self._count(line, operation, 1)
            if operation is not None:
                self._named[operation].add(int(found["rank"]))
            missing = "missing" if self._problem == "INCOMPLETE" else ""
            pid = None if found["pid"] is None else int(found["pid"])
            self._add(
                line.number,
                int(found["rank"]),
                status=status or missing,
                last_enqueued=operation,
                host=found["host"] or "",
                pid=pid,
                gpu=found["gpu"] or "",
            )

    def _begin(self, communicator: str, problem: str) -> None:
        self.finish()
        self._communicator, self._problem, self._size = communicator, problem, None
        self._collective, self._said = "", (None, "")

    def _count(self, line: PrintedLine, operation: int, number: int) -> None:
        self._line = line.number
        self._numbers[operation] = number
        self._named.setdefault(operation, set())
        self._state(
            line,
            problem=self._problem,
            communicator=self._communicator,
            collective=self._collective,
            num_ranks=number,
            last_enqueued=operation,
        )

    def finish(self) -> None:
        """The ranks of the one open number, where every rank of the communicator is counted."""
        total = sum(self._numbers.values())
        named = {rank for members in self._named.values() for rank in members}
        open_numbers = [
            number for number, count in self._numbers.items() if len(self._named[number]) < count
        ]
        if len(open_numbers) == 1 and total == self._size and total <= _MOST_RANKS and named:
            for rank in range(total):
                if rank not in named:
                    self._add(self._line, rank, last_enqueued=open_numbers[0])
        self._numbers, self._named = {}, {}

    def _state(self, line: PrintedLine, **values: object) -> None:
        self.add_to(RAS_STATEMENTS, line.number, **values)

    def _add(self, line: int, rank: int, **values: object) -> None:
        self.add(
            line,
            job=self._file,
            source=_SOURCE,
            rank=rank,
            group=self._communicator,
            collective=self._collective,
            **values,
        )


def _said(found: re.Match[str]) -> tuple[int | None, str]:
    """The last operation, or the error or state, that a line gives ranks; None and empty else."""
    if found["none"]:
        return 0, ""
    operation = found["operation"]
    return None if operation is None else int(operation), (
        found["status"] or found["error"] or ""
    ).strip()
