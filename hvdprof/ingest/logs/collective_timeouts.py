"""What PyTorch's watchdog prints of collectives that time out (``ProcessGroupNCCL.cpp``).

``[rank1]:[E... ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout:
WorkNCCL(SeqNum=7, OpType=ALLREDUCE, ...) ran for 600020 milliseconds``, then lines of the same rank
on its process group: ``[PG 0 Rank 1] ... at NCCL work: 7, last enqueued NCCL work: 9, last
completed NCCL work: 6``. All of it is printed several times; each is kept once. Terminals and
loggers wrap these lines: what follows without a head of its own is put to the line that is open, if
a whole record comes of it.
"""

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import EVERY_LINE, anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_TIMEOUTS
from hvdprof.rundir.failures.log_prefixes import TORCH_TAG

_LONGEST_MESSAGE = 500
_MOST_ROWS = 20_000

_SPEAKER = re.compile(
    r"\[(?:PG (?:ID )?(?P<group>.{1,80}?) )?Rank (?P<rank>\d{1,7})\](?P<said>(?:(?!\[Rank ).)*)$"
)
_TIMEOUT = re.compile(r"Watchdog caught collective operation timeout: ?WorkNCCL\((?P<work>[^)]*)")
# A number at the end of a cut line may have lost digits.
_SEQUENCE = re.compile(r"SeqNum=(\d{1,18})(?=[,)])")
_OPERATION = re.compile(r"OpType=(\w{1,40})(?=[,)])")
_NUMBERS = {
    name: re.compile(rf"{re.escape(name)}=(\d{{1,18}})(?=[,)])")
    for name in ("NumelIn", "NumelOut", "Timeout(ms)")
}
_WHOLE_WORK = re.compile(r"WorkNCCL\([\w=, ()]{1,300}\) ?ran for \d{1,15} milliseconds")
_RAN = re.compile(r"ran for (\d{1,15}) milliseconds")
_AT = re.compile(r"(?:watchdog at work(?: sequence id)?|Timeout at NCCL work): (\d{1,18})(?=[,. ])")
_ENQUEUED = re.compile(r"ast enqueued (?:NCCL )?work: (-?\d{1,18})(?=[,. ])")
_COMPLETED = re.compile(r"ast completed (?:NCCL )?work: (-?\d{1,18})(?!\d)(?=[,. ]|$)")
_SIGNALLED = re.compile(
    r"dump signal due to a collective timeout from +(?:rank (?P<rank>\d{1,7})\b|this local rank)"
)
# Of a rank whose own collective failed; where others timed out, so did this one.
_FAILED = re.compile(
    r"Some NCCL operations have failed or timed out|Stack trace of the failed collective"
)
_HEAD = re.compile(r"ProcessGroupNCCL\.cpp:\d{1,6}\]")
_ANY_HEAD = re.compile(r"\[rank\d|\[[EWIF]\d{0,4} |ProcessGroupNCCL\.cpp|NCCL (?:INFO|WARN)")
_MOST_WRAPS, _MOST_BETWEEN = 5, 64
_WORLD = re.compile(
    r"(?i)(?<!local[_ ])(?<!parallel[_ ])(?<!group[_ ])world[_ ]?size\W{1,4}(\d{1,7})\b"
)
_WANTED = anywhere(
    r"WorkNCCL\(", "work: ", "work sequence", _HEAD.pattern, r"(?i:world[_ ]?size)\W{1,4}\d"
)
Key = tuple[int | None, int | None]
"""Rank and SeqNum; the process group stands on some lines only."""


class CollectiveTimeouts(PartReader):
    """Collectives that timed out, each once per rank, as rows of COLLECTIVE_TIMEOUTS."""

    TABLES = (COLLECTIVE_TIMEOUTS,)
    KIND = "time-outs of PyTorch's watchdog"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._found: dict[Key, dict[str, object]] = {}
        # Of each rank and host that prefixes state, a record that may continue in the next lines.
        self._open: dict[tuple[int | None, str], list[PrintedLine]] = {}
        self._worlds: set[int] = set()
        # Ranks whose time-out is reported without its collective, by another rank or by themselves.
        self._reported: dict[int, dict[str, object]] = {}
        self._failed: dict[int, dict[str, object]] = {}

    @property
    def wanted(self) -> str:
        """Lines on work of a process group, and every line where one may continue."""
        return EVERY_LINE if self._open else _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        self._worlds |= {int(size) for size in _WORLD.findall(line.text)}
        for late in [one for one, record in self._open.items() if _is_over(record, line)]:
            self._close(late)
        speaker = line.rank, line.host
        if line.rank is None and speaker not in self._open and self._open:
            # PyTorch's own tag stands before the first line alone.
            speaker = next(reversed(self._open))
        record = self._open.get(speaker)
        if record is not None and not _ANY_HEAD.search(line.text):
            record.append(line)
            if _joined(record) or len(record) > _MOST_WRAPS:
                self._close(speaker)
            return
        speaker = line.rank, line.host
        self._close(speaker)
        if _HEAD.search(line.text) and not _is_whole(line.text):
            self._open[speaker] = [line]
        else:
            self._take(line)

    def _close(self, speaker: tuple[int | None, str]) -> None:
        """Take a record: as one where it is whole, else its lines one by one."""
        record = self._open.pop(speaker, [])
        text = _joined(record)
        if len(record) > 1 and text:
            record = [record[0]._replace(text=text)]
        for line in record:
            self._take(line)

    def _take(self, line: PrintedLine) -> None:
        text = line.text
        speaker = _SPEAKER.search(text)
        timeout = _TIMEOUT.search(text)
        failed = timeout is None and _FAILED.search(text) is not None
        if not failed and timeout is None and (speaker is None or not _ENQUEUED.search(text)):
            return
        tag = TORCH_TAG.search(text)
        # The tag holds the rank in the job, the text that in the process group.
        ranks = (tag and tag["rank"], line.rank, speaker and speaker["rank"])
        rank = next((int(known) for known in ranks if known is not None), None)
        if failed and rank is not None:
            self._failed.setdefault(rank, self._fresh(line) | {"rank": rank, "timed_out": True})
        elif timeout is not None:
            self._take_timeout(line, rank, timeout, speaker)
        elif speaker is not None:
            self._take_state(line, rank, speaker)

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """COLLECTIVE_TIMEOUTS."""
        self._end()
        own = {row["rank"] for row in self._found.values() if row["timed_out"]}
        if own or self._reported:
            self._reported |= {
                rank: row for rank, row in self._failed.items() if rank not in self._reported
            }
        world = min(self._worlds) if len(self._worlds) == 1 else None
        for row in sorted(self._found.values(), key=lambda row: int(str(row["line"]))):
            self.add(**row, world_size=world)  # type: ignore[arg-type]
        for rank, row in self._reported.items():
            if rank not in own:
                self.add(**row, world_size=world)  # type: ignore[arg-type]
        self._found.clear()
        self._reported.clear()
        self._failed.clear()
        return super().tables()

    def kinds(self) -> list[str]:
        """``time-outs of PyTorch's watchdog`` where one is in the file."""
        self._end()
        return [self.KIND] if self._found or len(self.rows) else []

    def _end(self) -> None:
        for speaker in list(self._open):
            self._close(speaker)

    def _take_timeout(
        self,
        line: PrintedLine,
        rank: int | None,
        timeout: re.Match[str],
        speaker: re.Match[str] | None,
    ) -> None:
        work = line.text[timeout.start() :]
        sequence = _number(_SEQUENCE, work)
        row = self._row(line, rank, sequence)
        if row is None or row["timed_out"]:
            return
        operation = _OPERATION.search(work)
        size_in, size_out, limit_ms = (_number(pattern, work) for pattern in _NUMBERS.values())
        waited_ms = _number(_RAN, work)
        name = operation[1] if operation else ""
        row |= {
            "line": line.number,
            "timed_out": True,
            "operation": name,
            "num_elements_in": size_in,
            "num_elements_out": size_out,
            "num_group_ranks": _group_ranks(name, size_in, size_out),
            "timeout_ns": None if limit_ms is None else limit_ms * 1_000_000,
            "waited_ns": None if waited_ms is None else waited_ms * 1_000_000,
            "message": line.text[_start(line.text, timeout) :][:_LONGEST_MESSAGE].strip(),
        }
        if speaker is not None and speaker["group"]:
            row["group"] = speaker["group"]

    def _take_state(self, line: PrintedLine, rank: int | None, speaker: re.Match[str]) -> None:
        text = line.text
        if signalled := _SIGNALLED.search(text):
            late = rank if signalled["rank"] is None else int(signalled["rank"])
            reporter = None if late == rank else rank
            reported = {"rank": late, "timed_out": True, "reported_by": reporter}
            if late is not None:
                self._reported.setdefault(late, self._fresh(line) | reported)
        timed_out = _AT.search(text)
        row = self._row(line, rank, int(timed_out[1]) if timed_out else None)
        if row is None:
            return
        if timed_out and not row["timed_out"]:
            row |= {"timed_out": True, "message": text[speaker.start() :][:_LONGEST_MESSAGE]}
        row["group"] = row.get("group") or speaker["group"] or ""
        enqueued, completed = _number(_ENQUEUED, text), _number(_COMPLETED, text)
        if enqueued is not None:
            row["last_enqueued"] = enqueued
        # PyTorch prints uninitialised memory where no collective was completed.
        if completed is not None and enqueued is not None and completed <= enqueued:
            row["last_completed"] = completed

    def _row(
        self, line: PrintedLine, rank: int | None, sequence: int | None
    ) -> dict[str, object] | None:
        key = rank, sequence
        if key not in self._found and len(self._found) >= _MOST_ROWS:
            return None
        fresh = self._fresh(line) | {"rank": rank, "sequence": sequence, "timed_out": False}
        return self._found.setdefault(key, fresh)

    def _fresh(self, line: PrintedLine) -> dict[str, object]:
        return {"line": line.number, "message": line.text[:_LONGEST_MESSAGE].strip()}


def _is_over(record: Sequence[PrintedLine], line: PrintedLine) -> bool:
    return line.number - record[0].number > _MOST_BETWEEN


def _joined(record: Sequence[PrintedLine]) -> str:
    """A record that was broken anywhere or between words, as one line; empty if it is not whole."""
    pieces = [line.text for line in record]
    wholes = ("".join(pieces), " ".join(map(str.strip, pieces)))
    return next(filter(_is_whole, wholes), "")


def _is_whole(text: str) -> bool:
    """Whether a text holds a time-out with its length, or a state, to its end."""
    if "WorkNCCL(" in text:
        return _WHOLE_WORK.search(text) is not None
    return _ENQUEUED.search(text) is not None and _COMPLETED.search(text) is not None


def _start(text: str, timeout: re.Match[str]) -> int:
    """Where the watchdog's line begins behind a progress bar or a cut line."""
    begins = [text.rfind(mark, 0, timeout.start()) for mark in ("[rank", "[E")]
    known = [at for at in begins if at >= 0]
    return min(known) if known else timeout.start()


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None


def _group_ranks(operation: str, size_in: int | None, size_out: int | None) -> int | None:
    if not size_in or not size_out:
        return None
    if "ALLGATHER" in operation:
        small, large = size_in, size_out
    elif "REDUCE_SCATTER" in operation:
        small, large = size_out, size_in
    else:
        return None
    return large // small if large % small == 0 and large > small else None
