"""A table that stays in its Parquet file, whose rows go through memory piece by piece."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hvdprof.ingest.storage.arrow_block import schema_of
from hvdprof.model.schema import Table


@dataclass(frozen=True, slots=True)
class KeptTable:
    """A table that stays in its Parquet file; ``len`` is the number of its rows.

    The file is open as long as this is there: its rows stay readable where a later reading of what
    they came from takes its place.

    Attributes:
        table: The declared table.
        path: The Parquet file.
        pass_id: What its rows have as ``pass_id`` now, whatever the file was called when it was
            read first.
    """

    table: Table
    path: Path
    pass_id: str
    _open: pa.NativeFile = field(init=False, repr=False, compare=False)
    _num_rows: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Open the file."""
        object.__setattr__(self, "_open", pa.OSFile(str(self.path)))
        object.__setattr__(self, "_num_rows", pq.read_metadata(self._open).num_rows)

    def __len__(self) -> int:
        """The number of rows."""
        return self._num_rows

    @property
    def schema(self) -> pa.Schema:
        """The columns as they stand in the file."""
        return schema_of(self.table)

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, so many at a time that they fit into memory, of all columns or of some."""
        names = self.schema.names if columns is None else list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        file = pq.ParquetFile(self._open, read_dictionary=names_of(self.table))
        for number in range(file.num_row_groups):
            yield self._named_now(file.read_row_group(number, columns=names)).cast(schema)

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """The rows as frames of the declared dtypes, of all columns or of some; at least one."""
        table = self.table if columns is None else _only(self.table, columns)
        for piece in self.pieces(columns):
            yield table.frame(frame_of(piece))
        if not len(self):
            yield table.empty()

    def frame(self) -> pd.DataFrame:
        """All rows at once."""
        content = pq.ParquetFile(self._open, read_dictionary=names_of(self.table)).read()
        return self.table.frame(frame_of(self._named_now(content)))

    def _named_now(self, rows: pa.Table) -> pa.Table:
        if "pass_id" not in rows.column_names:
            return rows
        codes = pa.array(np.zeros(len(rows), np.int32))
        named = pa.DictionaryArray.from_arrays(codes, pa.array([self.pass_id]))
        return rows.set_column(rows.column_names.index("pass_id"), "pass_id", named)


def names_of(table: Table) -> list[str]:
    """The columns of a table that hold names."""
    return [column.name for column in table.columns if column.dtype == "category"]


def frame_of(content: pa.Table) -> pd.DataFrame:
    """Arrow's rows as a frame; they are used up."""
    # Columns that have been made are let go of, or all of them would be there twice.
    frame: pd.DataFrame = content.to_pandas(split_blocks=True, self_destruct=True)
    return frame


def _only(table: Table, columns: Sequence[str]) -> Table:
    declared = {column.name: column for column in table.columns}
    return Table(table.name, table.doc, tuple(declared[name] for name in columns))
