"""The way through a timeline file: records where they stand, damage where none does.

Odd records come by here, on both paths: metadata, records that are not written as
Horovod writes them, and damage, after which reading resumes at the next place where a record may
start. So both paths tolerate the same, and give the same.
"""

import json
import re
from collections import Counter

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.syntax.fields import (
    BEGIN,
    CYCLE_START,
    ENOUGH,
    LONGEST,
    MARK,
    TICK,
    Event,
    Naming,
    NeedMore,
    NotARecord,
    Record,
    UnusableError,
    has_added_keys,
    meaning,
    next_start,
    record_at,
)
from hvdprof.ingest.timeline.syntax.pairing import NEGOTIATE, Pairing
from hvdprof.ingest.timeline.syntax.parsed_timeline import DamageLog, Layout, RawTimeline

_SEPARATORS = re.compile(r"[,\[\] \t\r\n]*")
_WINDOWS = (ENOUGH + 64, 1 << 18, LONGEST + 64)
_HEAD_BYTES = 1 << 16
_SEARCH_BYTES = 1 << 16
_LONGEST_TRAILER = 1 << 16
_ARRAY_IN_OBJECT = re.compile(r'"traceEvents"[ \t\r\n]{0,8}:[ \t\r\n]{0,40}\[')
_ENOUGH_FOREIGN = 500


class Reader:
    """Reads one file to its end; ``read`` may be called once."""

    def __init__(self, chunks: Chunks, pairing: Pairing) -> None:
        self.chunks, self.pairing = chunks, pairing
        self.place = 0
        self.order = 0
        self.codes: dict[int, int] = {}
        self.threads: dict[int, object] = {}
        self.pids: list[int] = []
        self.tensors: list[str] = []
        self.epochs: list[tuple[int, int]] = []
        self.counts: Counter[str] = Counter()
        self.damage = DamageLog()
        self.head = ""
        self.in_object = False

    def read(self) -> RawTimeline:
        """The records of the file; never an error."""
        self._start()
        while not self._is_at_end():
            if self.damage.is_open:
                self._resume()
                continue
            self.place, self.order = self.pairing.scan(self.chunks, self.place, self.order)
            self._odd()
            if self._is_foreign():
                break
        self._close_damage(self.chunks.offset + self.place)
        return self._finished()

    # -- the way through the file ------------------------------------------------------------

    def _start(self) -> None:
        while self.chunks.end < _HEAD_BYTES and not self.chunks.final:
            self.chunks.more()
        self.head = self.chunks.text(0, _HEAD_BYTES)
        array = _ARRAY_IN_OBJECT.search(self.head)
        if array is not None and self.head.lstrip().startswith("{"):
            self.in_object = True
            self.place = array.end()

    def _is_at_end(self) -> bool:
        while self.place >= self.chunks.end:
            if self.chunks.final:
                return True
            self._refill()
        return False

    def _refill(self) -> None:
        # Two bytes before the place decide whether a record may start there.
        keep = max(self.place - 2, 0)
        self.chunks.forget(keep)
        self.place -= keep
        self.chunks.more()

    def _odd(self) -> None:
        """What the pairing did not take: separators, one record, or the start of damage."""
        while True:
            found = _SEPARATORS.match(self.chunks.text(self.place, 256))
            width = found.end() if found else 0
            self.place += width
            if self.place < self.chunks.end:
                if width < 256:
                    break
            elif self._is_at_end():
                return
        start = self.chunks.offset + self.place
        if self.chunks.data[self.place] != ord("{"):
            if not self._skip_trailer():
                self.damage.open(start)
            return
        try:
            record, length = self._record()
        except NotARecord:
            self.damage.open(start)
            self.place += 1
            return
        self.place += length
        self._take(record, start, length)

    def _skip_trailer(self) -> bool:
        """Pass over the keys that follow the array of an object; whether there are any."""
        if not self.in_object:
            return False
        while not self.chunks.final and self.chunks.end - self.place <= _LONGEST_TRAILER:
            self._refill()
        rest = self.chunks.text(self.place, _LONGEST_TRAILER).strip()
        try:
            whole = isinstance(json.loads("{" + rest), dict)
        except (ValueError, RecursionError):
            whole = False
        if whole:
            self.place = self.chunks.end
        return whole

    def _record(self) -> tuple[Record, int]:
        while True:
            for window in _WINDOWS:
                text = self.chunks.text(self.place, window)
                reaches_end = self.place + len(text) >= self.chunks.end
                try:
                    return record_at(text, 0, all_there=reaches_end and self.chunks.final)
                except NeedMore:
                    if reaches_end:
                        break
            self._refill()

    def _resume(self) -> None:
        # Every record begins with a brace: what lies before the next one is passed over at the
        # speed of memory, such as the zeros that a full disk leaves.
        self.place = max(self.chunks.find(ord("{"), self.place) - 2, self.place)
        before = min(self.place, 2)
        text = self.chunks.text(self.place - before, _SEARCH_BYTES)
        reaches_end = self.place - before + len(text) >= self.chunks.end
        all_there = reaches_end and self.chunks.final
        place, found = next_start(text, before, all_there=all_there)
        self.place += place - before
        if not found:
            if reaches_end and not all_there:
                self._refill()
            return
        try:
            start = self.chunks.offset + self.place
            record, length = self._record()
        except NotARecord:
            self.place += 1
            return
        self._close_damage(start)
        self.place += length
        self._take(record, start, length)

    def _close_damage(self, end: int) -> None:
        if self.damage.is_open:
            at_end = self.chunks.final and end >= self.chunks.offset + self.chunks.end
            self.damage.close(end, "cut off" if at_end else "not a record")
            self.order += 1

    # -- records -----------------------------------------------------------------------------

    def _take(self, record: Record, start: int, length: int) -> None:
        try:
            said = meaning(record)
        except UnusableError:
            self.damage.add(start, length, "a record with unusable fields")
            self.order += 1
            return
        if (
            isinstance(said, Event)
            and has_added_keys(record)
            and not self._is_horovods(said, record)
        ):
            said = None
        if isinstance(said, Event):
            code = -1 if said.kind == MARK else self._code(said.pid)
            text = self.chunks.text(self.place - length, length)
            self.pairing.put(said, code, self.order, text)
            self.order += 1
        elif isinstance(said, Naming):
            self.counts["M"] += 1
            self._name(said)
        else:
            self.counts["other"] += 1
            self.order += 1

    def _is_horovods(self, said: Event, record: Record) -> bool:
        """Whether a record with added keys is Horovod's: its pid has negotiated, in one thread."""
        if said.kind == MARK:
            return said.name == CYCLE_START
        if said.kind == BEGIN and said.name.startswith(NEGOTIATE):
            self.threads.setdefault(said.pid, record.get("tid"))
        is_named_tick = said.kind == TICK and said.pid in self.codes
        thread = record.get("tid")
        return self.threads.get(said.pid, thread) == thread and (
            is_named_tick or said.pid in self.threads
        )

    def _name(self, said: Naming) -> None:
        if said.epoch_us is not None:
            self.epochs.append((self.order, said.epoch_us))
        if said.tensor is None:
            return
        code = self._code(said.pid)
        if self.tensors[code] not in ("", said.tensor):
            code = self._new_code(said.pid)
        self.tensors[code] = said.tensor
        self.pairing.name(code, said.tensor)

    def _code(self, number: int) -> int:
        code = self.codes.get(number)
        return self._new_code(number) if code is None else code

    def _new_code(self, number: int) -> int:
        code = self.codes[number] = len(self.pids)
        self.pids.append(number)
        self.tensors.append("")
        self.pairing.rename(number, code)
        return code

    # -- the end -----------------------------------------------------------------------------

    def _is_foreign(self) -> bool:
        other = self.counts["other"]
        return other >= _ENOUGH_FOREIGN and other > 10 * sum(self.pairing.counts().values())

    def _finished(self) -> RawTimeline:
        slices, ticks, marks, names, args = self.pairing.finished()
        counts = self.counts + Counter(self.pairing.counts())
        chunks = self.chunks
        num_timed = sum(counts[kind] for kind in "BEXi")
        return RawTimeline(
            slices=slices,
            ticks=ticks,
            marks=marks,
            pids=tuple(self.pids),
            tensors=tuple(self.tensors),
            names=names,
            args=args,
            epochs=tuple(self.epochs),
            num_records={kind: counts[kind] for kind in ("M", "B", "E", "X", "i", "other")},
            num_timed=self.order,
            damage=self.damage.report(chunks.broken, chunks.offset + chunks.end),
            layout=Layout(
                in_object=self.in_object,
                encoding=self.chunks.encoding,
                compression=self.chunks.compression,
            ),
            size_bytes=chunks.offset + chunks.end,
            foreign=_foreign_kind(self.head) if counts["other"] > num_timed else "",
        )


def _foreign_kind(head: str) -> str:
    of_torch = ('"schemaVersion"', '"deviceProperties"', '"cpu_op"', "ProfilerStep#")
    return "a trace of PyTorch's profiler" if any(m in head for m in of_torch) else "a Chrome trace"
