"""A table in its Parquet file: written and read piece by piece, in bounded memory."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hvdprof.ingest.storage.blocks import Block, arrow_rows, schema_of
from hvdprof.ingest.storage.mapped_frame import can_be_mapped, mapped_frame
from hvdprof.ingest.storage.sealed_file import opened
from hvdprof.model.schema import Table
from hvdprof.rundir.regular_file import shown_name

MAPPED_FROM_ROWS = 250_000
"""Fewer rows are faster in memory, and take little of it."""


class CachedTable:
    """A table in its Parquet file; ``len`` is the number of its rows.

    The file stays open: its rows are readable even after a later reading of the source replaced it.

    Args:
        table: The declared table.
        path: The Parquet file, or what makes it; this is called at the first use of its rows.
        source: The file whose rows it has. Its name now is their ``pass_id``: it may have had
            another one when it was read first.
        num_rows: The number of rows, which a file that is not made yet cannot say.
    """

    def __init__(
        self,
        table: Table,
        path: Path | Callable[[], Path],
        source: Path,
        num_rows: int | None = None,
    ) -> None:
        self.table, self.source, self.pass_id = table, source, shown_name(source)
        self._given, self._num_rows = path, num_rows
        if isinstance(path, Path):
            self._num_rows = pq.read_metadata(self._opened).num_rows

    def __len__(self) -> int:
        """The number of rows."""
        if self._num_rows is None:
            self._num_rows = pq.read_metadata(self._opened).num_rows
        return self._num_rows

    @functools.cached_property
    def path(self) -> Path:
        """The Parquet file."""
        return self._given if isinstance(self._given, Path) else self._given()

    @property
    def schema(self) -> pa.Schema:
        """The columns as they stand in the file."""
        return schema_of(self.table)

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, so many at a time that they fit into memory, of all columns or of some."""
        names = self.schema.names if columns is None else list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        file = pq.ParquetFile(self._opened, read_dictionary=category_names(self.table))
        for number in range(file.num_row_groups):
            yield self._renamed(file.read_row_group(number, columns=names)).cast(schema)

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """The rows as frames of the declared dtypes, of all columns or of some; at least one."""
        table = self.table if columns is None else _only(self.table, columns)
        for piece in self.pieces(columns):
            yield table.frame(frame_of(piece))
        if not len(self):
            yield table.empty()

    def frame(self) -> pd.DataFrame:
        """All rows at once; the columns of many are mapped from a file (``mapped_frame``)."""
        if len(self) >= MAPPED_FROM_ROWS and can_be_mapped(self.table):
            # Without room for that file the rows go into memory.
            with contextlib.suppress(OSError):
                rows = mapped_frame(self.table, len(self), self.pieces(), self.path.parent)
                return self.table.frame(rows)
        content = pq.ParquetFile(self._opened, read_dictionary=category_names(self.table)).read()
        return self.table.frame(frame_of(self._renamed(content)))

    @functools.cached_property
    def _opened(self) -> pa.NativeFile:
        return opened(self.path)

    def _renamed(self, rows: pa.Table) -> pa.Table:
        if "pass_id" not in rows.column_names:
            return rows
        codes = pa.array(np.zeros(len(rows), np.int32))
        named = pa.DictionaryArray.from_arrays(codes, pa.array([self.pass_id]))
        return rows.set_column(rows.column_names.index("pass_id"), "pass_id", named)


def category_names(table: Table) -> list[str]:
    """The columns of a table that hold categories."""
    return [column.name for column in table.columns if column.dtype == "category"]


def frame_of(content: pa.Table) -> pd.DataFrame:
    """Arrow's rows as a frame; they are used up."""
    # Each column is released as soon as it is converted, or all of them would be there twice.
    frame: pd.DataFrame = content.to_pandas(split_blocks=True, self_destruct=True)
    return frame


def _only(table: Table, columns: Sequence[str]) -> Table:
    declared = {column.name: column for column in table.columns}
    return Table(table.name, table.doc, tuple(declared[name] for name in columns))


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
