"""Timelines in the words of Horovod's writer, record by record, with a clock that always moves."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

EPOCH_US = 1_700_000_000_000_000


class TimelineWriter:
    """Collects records; ``now_us`` may be moved forwards, every record takes a microsecond."""

    def __init__(self, *, epoch_us: int | None = EPOCH_US) -> None:
        self.records: list[dict[str, Any]] = []
        self.pids: dict[str, int] = {}
        self.now_us = 0
        if epoch_us is not None:
            args = {"start_time_since_epoch_in_micros": epoch_us}
            self.records.append({"name": "process_name", "ph": "M", "pid": 0, "args": args})

    def begin(self, tensor: str, name: str) -> None:
        self._put({"ph": "B", "name": name, "ts": self._tick(), "pid": self._pid(tensor)})

    def end(self, tensor: str, **args: str) -> None:
        record = {"ph": "E", "ts": self._tick(), "pid": self._pid(tensor)}
        self._put(record | ({"args": args} if args else {}))

    def rank(self, tensor: str, rank: int) -> None:
        pid = self._pid(tensor)
        self._put({"ph": "X", "name": str(rank), "ts": self._tick(), "pid": pid, "dur": 0})

    def cycle(self) -> None:
        self._put({"ph": "i", "name": "CYCLE_START", "ts": self._tick(), "s": "g"})

    def negotiate(
        self, tensors: Sequence[str], op: str = "ALLREDUCE", ranks: Sequence[int] = ()
    ) -> None:
        """All tensors in one cycle, one after the other."""
        for tensor in tensors:
            self.begin(tensor, f"NEGOTIATE_{op}")
            for rank in ranks:
                self.rank(tensor, rank)
            self.end(tensor)

    def execute(
        self,
        tensors: Sequence[str],
        op: str = "ALLREDUCE",
        activities: Sequence[str] = ("MPI_ALLREDUCE",),
        shapes: Mapping[str, str] | None = None,
    ) -> None:
        """One execution as on a CPU: each activity begins and ends for all tensors in turn."""
        for tensor in tensors:
            self.begin(tensor, op)
        for activity in activities:
            for tensor in tensors:
                self.begin(tensor, activity)
            for tensor in tensors:
                self.end(tensor)
        for tensor in tensors:
            self.end(tensor, dtype="float32", shape=(shapes or {}).get(tensor, "[8]"))

    def text(self) -> str:
        return "[\n" + ",\n".join(map(json.dumps, self.records)) + "]"

    def _put(self, record: dict[str, Any]) -> None:
        self.records.append(record)

    def _tick(self) -> int:
        self.now_us += 1
        return self.now_us

    def _pid(self, tensor: str) -> int:
        if tensor not in self.pids:
            self.pids[tensor] = len(self.pids) + 1
            pid = self.pids[tensor]
            name = {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": tensor}}
            self._put(name)
        return self.pids[tensor]
