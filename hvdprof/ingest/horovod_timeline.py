"""Horovod's timeline file to rows of EVENTS, in plain Python.

What the file says and does not say is told in the docs on Horovod's timeline: every tensor is a
"process", B and E pair up as a stack per process, X is a rank that got ready, and one execution of
several fused tensors shows as a run of top-level begins with nothing between them.
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hvdprof.ingest.trace_records import Record, read_records
from hvdprof.ingest.whole_number import whole

NEGOTIATE = "NEGOTIATE_"
# Only these are ever executed several at once (controller.cc, Controller::FuseResponses).
FUSED = frozenset({"ALLREDUCE", "ADASUM", "ALLGATHER", "REDUCESCATTER"})
# Horovod ends these without ever having begun them (operations.cc, PerformOperation).
_ENDS_ALONE = ("barrier.", "join.")
_DTYPE_BYTES = {
    "uint8": 1,
    "int8": 1,
    "bool": 1,
    "uint16": 2,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}
_SHAPE = re.compile(r"\[\s*(\d+(?:\s*,\s*\d+)*)?\s*\]")


@dataclass(slots=True)
class TimelineRow:
    """One row of EVENTS, times in µs of the file; ``dur_us`` is -1 where the end is missing."""

    phase: str
    activity: str
    collective: str
    tensor: str
    occurrence: int
    fusion_id: int
    start_us: int
    dur_us: int = -1
    size_bytes: int | None = None
    rank: int = 0


@dataclass(slots=True)
class TimelineFile:
    """The rows of a timeline file in file order.

    ``epoch_us`` is the wall clock at time 0 of the file; ``None`` where the file does not say it
    (Horovod before 0.20.1, whose times are those of the monotonic clock).
    """

    epoch_us: int | None = None
    rows: list[TimelineRow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Tensor:
    name: str
    stack: list[TimelineRow] = field(default_factory=list)
    num_uses: int = 0
    negotiated: bool = False

    @property
    def occurrence(self) -> int:
        return max(self.num_uses - 1, 0)


def read_timeline_file(path: Path) -> TimelineFile:
    """What a timeline file holds; an empty file holds nothing.

    Raises:
        OSError: The file cannot be read.
    """
    return parse_timeline(path.read_text(encoding="utf-8", errors="replace"))


def parse_timeline(text: str) -> TimelineFile:
    """What the text of a timeline file holds."""
    found = read_records(text)
    parser = _Parser()
    for record in found.records:
        parser.take(record)
    file = parser.file
    num_open = parser.num_unfinished + sum(len(tensor.stack) for tensor in parser.tensors.values())
    counted = {
        "{} damaged records were left out": found.num_damaged + parser.num_damaged,
        "{} events end without a beginning (recording began in the middle of them)": (
            parser.num_orphans
        ),
        "{} events never end (the recording stopped before, or lost their end)": num_open,
    }
    file.problems += [clause.format(number) for clause, number in counted.items() if number]
    if not found.records:
        file.problems.append("it holds no event")
    return file


class _Parser:
    def __init__(self) -> None:
        self.file = TimelineFile()
        self.tensors: dict[int, _Tensor] = {}
        self.num_damaged = 0
        self.num_orphans = 0
        self.num_unfinished = 0
        self.num_batches = 0
        self.batch: str = ""
        self.by_ph = {
            "M": self.metadata,
            "B": self.begin,
            "E": self.end,
            "X": self.tick,
            "i": self.instant,
        }

    def take(self, record: Record) -> None:
        handle = self.by_ph.get(str(record.get("ph")))
        if handle is None:
            self.num_damaged += 1
            return
        try:
            handle(record)
        except (KeyError, ValueError, TypeError, AttributeError):
            self.num_damaged += 1

    def metadata(self, record: Record) -> None:
        pid = whole(record["pid"])
        args = record.get("args", {})
        if record.get("name") != "process_name":
            return
        if "start_time_since_epoch_in_micros" in args:
            self.file.epoch_us = whole(args["start_time_since_epoch_in_micros"])
        if "name" in args:
            self.tensor(pid).name = str(args["name"])

    def begin(self, record: Record) -> None:
        tensor, ts, name = self.tensor_of(record), whole(record["ts"]), str(record["name"])
        if name.startswith(NEGOTIATE):
            # Horovod never negotiates a tensor in use: the end of what is open got lost.
            self.num_unfinished += len(tensor.stack)
            tensor.stack.clear()
            row = self.negotiation(tensor, name, ts)
        elif tensor.stack:
            row = self.activity(tensor, name, ts)
        else:
            row = self.operation(tensor, name, ts)
        tensor.stack.append(row)
        self.file.rows.append(row)

    def negotiation(self, tensor: _Tensor, name: str, ts: int) -> TimelineRow:
        self.batch = ""
        tensor.num_uses += 1
        tensor.negotiated = True
        collective = name.removeprefix(NEGOTIATE)
        return TimelineRow("negotiation", name, collective, tensor.name, tensor.occurrence, -1, ts)

    def operation(self, tensor: _Tensor, name: str, ts: int) -> TimelineRow:
        if not tensor.negotiated:
            tensor.num_uses += 1
        tensor.negotiated = False
        if self.batch != name or name not in FUSED:
            self.num_batches += 1
        self.batch = name
        batch = self.num_batches - 1
        return TimelineRow("operation", name, name, tensor.name, tensor.occurrence, batch, ts)

    def activity(self, tensor: _Tensor, name: str, ts: int) -> TimelineRow:
        self.batch = ""
        outer = tensor.stack[0]
        return TimelineRow(
            "activity", name, outer.collective, tensor.name, outer.occurrence, outer.fusion_id, ts
        )

    def end(self, record: Record) -> None:
        self.batch = ""
        tensor, ts = self.tensor_of(record), whole(record["ts"])
        if not tensor.stack:
            self.num_orphans += not tensor.name.startswith(_ENDS_ALONE)
            return
        row = tensor.stack.pop()
        row.dur_us = ts - row.start_us
        if row.phase == "operation":
            row.size_bytes = _size_bytes(record.get("args"))

    def tick(self, record: Record) -> None:
        self.batch = ""
        tensor, rank = self.tensor_of(record), int(record["name"])
        collective = tensor.stack[0].collective if tensor.stack else ""
        self.file.rows.append(
            TimelineRow(
                phase="mark",
                activity=str(record["name"]),
                collective=collective,
                tensor=tensor.name,
                occurrence=tensor.occurrence,
                fusion_id=-1,
                start_us=whole(record["ts"]),
                dur_us=0,
                rank=rank,
            )
        )

    def instant(self, record: Record) -> None:
        self.batch = ""
        name, ts = str(record["name"]), whole(record["ts"])
        self.file.rows.append(TimelineRow("mark", name, "", "", 0, -1, ts, 0))

    def tensor_of(self, record: Record) -> _Tensor:
        return self.tensor(whole(record["pid"]))

    def tensor(self, pid: int) -> _Tensor:
        return self.tensors.setdefault(pid, _Tensor(name=f"pid {pid}"))


def _size_bytes(args: Any) -> int | None:
    """Elements by their size; ``None`` where Horovod did not write both."""
    if not isinstance(args, dict):
        return None
    shape = _SHAPE.fullmatch(str(args.get("shape")))
    width = _DTYPE_BYTES.get(str(args.get("dtype")))
    if shape is None or width is None:
        return None
    edges = [int(edge) for edge in shape.group(1).split(",")] if shape.group(1) else []
    return width * math.prod(edges)
