"""A timeline file to Parquet in one pass, with memory that does not grow with the file.

Slices are written as they end, in row groups, by a second thread; what is still open at the end of
the file comes last. Strings are dictionaries, so that a reader sees names and not codes.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hvdprof.ingest.timeline.chunks import Chunks, Progress
from hvdprof.ingest.timeline.fast_road import FastPairing
from hvdprof.ingest.timeline.raw import Marks, RawTimeline, Slices, Ticks
from hvdprof.ingest.timeline.reader import Reader
from hvdprof.rundir.whole_file import open_whole

_STRING = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("pid", pa.int32()),
        ("name", _STRING),
        ("start_us", pa.int64()),
        ("dur_us", pa.int64()),
        ("depth", pa.uint8()),
        ("begin_order", pa.int64()),
        ("end_order", pa.int64()),
        ("args", _STRING),
    ]
)
"""The columns of ``raw.Slices``; a missing name or args is null, ``pid`` is the code of the pid."""

_RISING = ("start_us", "dur_us", "begin_order", "end_order")


def slices_to_parquet(path: Path, target: Path, *, progress: Progress | None = None) -> RawTimeline:
    """Write the slices of a timeline file into a Parquet file, whole or not at all.

    Args:
        path: The timeline; gzip and zstd are told by their content.
        target: The Parquet file.
        progress: Called with the bytes of the timeline read so far and its size.

    Returns:
        What the file says besides: strings, counts, damage and layout. Of slices, ticks and marks
        it holds those only that came after the last full row group.

    Raises:
        StorageError: The target cannot be written.
        OSError: The timeline cannot be read.
    """
    size = path.stat().st_size
    with (
        path.open("rb") as source,
        open_whole(target, binary=True) as file,
        pq.ParquetWriter(
            file,
            SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=["name", "args"],
            column_encoding=dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
        ) as writer,
        ThreadPoolExecutor(1) as thread,
    ):
        pending: list[Future[None]] = []

        def drain(
            slices: Slices, ticks: Ticks, marks: Marks, names: list[str], args: list[str]
        ) -> None:
            while pending:
                pending.pop().result()
            pending.append(thread.submit(_write, writer, slices, names, args))

        raw = Reader(Chunks(source, size, progress=progress), FastPairing(drain)).read()
        drain(raw.slices, raw.ticks, raw.marks, list(raw.names), list(raw.args))
        pending.pop().result()
    return raw


def _write(writer: pq.ParquetWriter, slices: Slices, names: list[str], args: list[str]) -> None:
    columns = {
        field.name: pa.array(getattr(slices, field.name))
        for field in SCHEMA
        if field.type != _STRING
    }
    columns["name"] = _strings(slices.name, names)
    columns["args"] = _strings(slices.args, args)
    writer.write_table(pa.table([columns[field.name] for field in SCHEMA], schema=SCHEMA))


def _strings(codes: np.ndarray, values: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=codes < 0), pa.array(values, pa.string())
    )
