"""A timeline file part by part, with memory that does not grow with the file.

Whenever there are enough rows, those before the last place at which Horovod was quiescent are cut
off, and their meaning is found as that of a whole file is. From part to part go the
number of uses of each tensor and the sums in ``FactCounts``. This needs numba.
"""

import pickle
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Generic, Self, TypeVar

import numpy as np
import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.text.text_chunks import CHUNK_BYTES, Chunks, Progress
from hvdprof.ingest.timeline.compiled.fast_path import FastPairing
from hvdprof.ingest.timeline.horovod_timeline import refuse_unusable
from hvdprof.ingest.timeline.machine_code import NotCompiledError, has_numba
from hvdprof.ingest.timeline.meaning.fact_counts import FactCounts
from hvdprof.ingest.timeline.meaning.semantics import Semantics, collectives_of, semantics_of
from hvdprof.ingest.timeline.meaning.uses import tensors_of
from hvdprof.ingest.timeline.syntax.parsed_timeline import (
    DamageReport,
    Layout,
    Marks,
    RawTimeline,
    Slices,
    Ticks,
    stood_at,
)
from hvdprof.ingest.timeline.syntax.record_reader import Reader
from hvdprof.model.arrays import Int64s
from hvdprof.rundir.regular_file import open_regular

ROWS_AT_ONCE = 1 << 16
"""Room for so many rows before a quiescent place is looked for among them."""

_Part = TypeVar("_Part")


class NotInPartsError(Exception):
    """The file must be read as a whole: a part hangs on a later one, or numba cannot be used."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What is known of a file whose parts have been read.

    Attributes:
        raw: The file, of its rows those of the last part only.
        counts: What was counted in all parts.
    """

    raw: RawTimeline
    counts: FactCounts


def read_in_parts(
    path: Path,
    take: Callable[[Semantics], None],
    *,
    progress: Progress | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    rows_at_once: int | None = None,
    size: int | None = None,
) -> Parts:
    """Read a timeline file from one quiescent place to the next.

    Args:
        path: The file; its content says whether it is gzip or zstd.
        take: Called with each part in their order. What it takes from the file is valid
            during the call only, its ``reductions`` beyond.
        progress: Called with the bytes of the file read so far and its size.
        chunk_bytes: So many bytes are read at once.
        rows_at_once: Room for so many rows before a quiescent place is looked for;
            ``ROWS_AT_ONCE`` when not given.
        size: Bytes of the text to read; all when not given.

    Raises:
        NotInPartsError: The file must be read as a whole.
        UnreadableInputError: It holds nothing usable.
        OSError: It cannot be read.
    """
    if not has_numba():
        raise NotInPartsError
    with open_regular(path) as source:
        chunks = Chunks(
            source, path.stat().st_size, chunk_bytes=chunk_bytes, progress=progress, text_bytes=size
        )
        cutter = _Cutter(take)
        pairing = FastPairing(cutter.offer, row_group=rows_at_once or ROWS_AT_ONCE)
        cutter.reader = reader = Reader(chunks, pairing)
        try:
            raw = reader.read()
        except NotCompiledError as error:
            raise NotInPartsError from error
    refuse_unusable(path, raw)
    cutter.understand(raw)
    return Parts(raw, cutter.counts)


class _Cutter:
    """Cuts off parts and finds their meaning."""

    def __init__(self, take: Callable[[Semantics], None]) -> None:
        self.counts = FactCounts()
        self.reader: Reader | None = None
        self._take = take
        self._used: Int64s = np.empty(0, dtype=np.int64)
        self._num_executions = 0
        self._tensors: tuple[str, ...] = ()
        self._collectives: tuple[str, ...] = ()

    def offer(
        self,
        slices: Slices,
        ticks: Ticks,
        marks: Marks,
        names: list[str],
        args: list[str],
        quiescent: int,
    ) -> int:
        """See ``fast_path.Offer``."""
        if not len(slices) or quiescent <= stood_at(slices)[0]:
            return 0
        if self.reader is None:
            raise UnreadableInputError("Nothing is being read.")
        raw = RawTimeline(
            slices,
            ticks,
            marks,
            pids=tuple(self.reader.pids),
            tensors=tuple(self.reader.tensors),
            names=tuple(names),
            args=tuple(args),
            epochs=tuple(self.reader.epochs),
            num_records={},
            num_timed=0,
            damage=DamageReport(),
            layout=Layout(),
            size_bytes=0,
        )
        self.understand(_before(raw, quiescent))
        return quiescent

    def understand(self, raw: RawTimeline) -> None:
        """Find the meaning of the next part."""
        names, collectives = tensors_of(raw).names, collectives_of(raw.names)
        # Tensors that are named late, and words that turn out to be collectives.
        if not (_goes_on(self._tensors, names) and _goes_on(self._collectives, collectives)):
            raise NotInPartsError
        self._tensors, self._collectives = names, collectives
        used = np.zeros(len(names), dtype=np.int64)
        used[: len(self._used)] = self._used
        known = semantics_of(raw, used, self._num_executions)
        self._num_executions += len(known.batches)
        self._used = used + np.bincount(known.uses.tensor, minlength=len(names))
        self.counts.add(known)
        self._take(known)


def _before(raw: RawTimeline, record: int) -> RawTimeline:
    """The rows that stand before a record."""
    slices, ticks, marks = raw.slices, raw.ticks, raw.marks
    rows = int(np.searchsorted(stood_at(slices), record))
    num_ticks, num_marks = (int(np.searchsorted(part.order, record)) for part in (ticks, marks))
    return replace(
        raw,
        slices=Slices(
            slices.pid[:rows],
            slices.name[:rows],
            slices.start_us[:rows],
            slices.dur_us[:rows],
            slices.depth[:rows],
            slices.begin_order[:rows],
            slices.end_order[:rows],
            slices.args[:rows],
        ),
        ticks=Ticks(
            ticks.pid[:num_ticks],
            ticks.rank[:num_ticks],
            ticks.ts_us[:num_ticks],
            ticks.order[:num_ticks],
        ),
        marks=Marks(marks.name[:num_marks], marks.ts_us[:num_marks], marks.order[:num_marks]),
        num_timed=record,
    )


def _goes_on(before: tuple[str, ...], now: tuple[str, ...]) -> bool:
    return now[: len(before)] == before


class PartSpool(Generic[_Part]):
    """A temporary file without a name, gone when it is closed; no other process can write to it."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed by __exit__)
        self._num_parts = 0
        self._categories: list[pd.CategoricalDtype] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._file.close()

    def append(self, part: _Part) -> None:
        """Keep another part.

        Raises:
            OSError: The disk is full.
        """
        _Pickler(self._file, self._categories).dump(part)
        self._num_parts += 1

    def parts(self) -> Iterator[_Part]:
        """The parts, each when it is asked for."""
        self._file.seek(0)
        for _ in range(self._num_parts):
            yield _Unpickler(self._file, self._categories).load()


class _Pickler(pickle.Pickler):
    """Leaves categories in memory: the parts of a file share them."""

    def __init__(self, file: IO[bytes], categories: list[pd.CategoricalDtype]) -> None:
        super().__init__(file, protocol=5)
        self._categories = categories
        self._numbers = {id(one): number for number, one in enumerate(categories)}

    def persistent_id(self, obj: object) -> int | None:
        if not isinstance(obj, pd.CategoricalDtype):
            return None
        if id(obj) not in self._numbers:
            self._numbers[id(obj)] = len(self._categories)
            self._categories.append(obj)
        return self._numbers[id(obj)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], categories: list[pd.CategoricalDtype]) -> None:
        super().__init__(file)
        self._categories = categories

    def persistent_load(self, pid: int) -> pd.CategoricalDtype:
        return self._categories[pid]
