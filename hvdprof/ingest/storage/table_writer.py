"""A Parquet file of a declared table that grows piece by piece.

Tested in ``tests/ingest/storage/test_parquet_cache.py``.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from hvdprof.ingest.storage.arrow_block import arrow_rows, schema_of
from hvdprof.ingest.storage.blocks import Block
from hvdprof.ingest.storage.cached_table import category_names
from hvdprof.model.schema import Table

_CODEC = "lz4"
FEWEST_ROWS_OF_PIECE = 1 << 16
"""The writer holds the metadata of each piece until the end of the file."""

_PRUNED_BY = ("step", "start_ns")
"""Columns by which a query can leave out pieces; bounds of every column cost a third of the time
and, with a thousand pieces, many megabytes."""


class TableWriter:
    """A Parquet file of a declared table that grows piece by piece, in a thread."""

    def __init__(self, table: Table, file: IO[Any], thread: Executor) -> None:
        self._schema, self._thread = schema_of(table), thread
        self._writer = pq.ParquetWriter(
            file,
            self._schema,
            compression=_CODEC,
            use_dictionary=category_names(table),
            column_encoding=_encodings(table),
            write_statistics=[name for name in _PRUNED_BY if name in self._schema.names],
        )
        self._pending: Future[None] | None = None
        self._held: list[pa.Table] = []

    def append(self, make: Callable[[], Block]) -> None:
        """Write rows of the table below those that were written before.

        Args:
            make: Gives them, in the thread; what it takes must not change any more.

        Raises:
            OSError: The piece before could not be written.
        """
        self._finish()
        self._pending = self._thread.submit(self._take, make)

    def close(self) -> None:
        """Write the end of the file, when all pieces are written."""
        self._finish()
        self._write_held()
        self._writer.close()

    def _take(self, make: Callable[[], Block]) -> None:
        self._held.append(arrow_rows(self._schema, make()))
        if sum(map(len, self._held)) >= FEWEST_ROWS_OF_PIECE:
            self._write_held()

    def _write_held(self) -> None:
        if self._held:
            held = pa.concat_tables(self._held)
            self._held.clear()
            self._writer.write_table(held)

    def _finish(self) -> None:
        # One piece at a time: pieces that wait to be written take memory.
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()


def _encodings(table: Table) -> dict[str, str]:
    whole_numbers = ("int64", "Int64")
    return {
        column.name: "DELTA_BINARY_PACKED"
        for column in table.columns
        if column.dtype in whole_numbers
    }
