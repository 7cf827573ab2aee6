"""A large table as a frame whose columns lie in a file without a name that is mapped into memory.

A column that is not looked at takes no memory, and the system takes pages back where it is short.
"""

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from hvdprof.model.arrays import Int64s
from hvdprof.model.schema import Column, Table

_CODES: tuple[type[np.signedinteger[Any]], ...] = (np.int8, np.int16, np.int32)
_CATEGORY, _NULLABLE = "category", "Int64"
_PLAIN = ("int64", "int32", "float64", "bool")
_WIDEST_CODE = 4
_PAGE = mmap.ALLOCATIONGRANULARITY
_mappings: "weakref.WeakSet[mmap.mmap]" = weakref.WeakSet()


def can_be_mapped(table: Table) -> bool:
    """Whether every column of a table has values of a fixed size."""
    return all(column.dtype in (_CATEGORY, _NULLABLE, *_PLAIN) for column in table.columns)


def mapped_frame(
    table: Table, num_rows: int, pieces: Iterable[pa.Table], folder: Path
) -> pd.DataFrame:
    """The rows of all pieces as a frame of the declared columns and dtypes, which are read-only.

    Args:
        table: The declared table; ``can_be_mapped`` holds.
        num_rows: The number of all rows.
        pieces: The rows, some at a time, in their order.
        folder: Has room for the file, which has no name there and ends with the frame.

    Raises:
        OSError: The file cannot be written.
        ValueError: There are fewer or more rows.
    """
    columns, size = [], 0
    for column in table.columns:
        columns.append(_Stored(column, num_rows, size))
        size += columns[-1].size
    with tempfile.TemporaryFile(dir=folder) as file:
        done = 0
        for piece in pieces:
            if done + len(piece) > num_rows:
                raise ValueError(f"table {table.name}: more than {num_rows} rows")
            for stored in columns:
                values = piece.column(stored.column.name)
                stored.write(file.fileno(), done, pa.concat_arrays(values.chunks))
            done += len(piece)
        if done != num_rows:
            raise ValueError(f"table {table.name}: {done} instead of {num_rows} rows")
        file.truncate(size)
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    _mappings.add(mapped)
    return pd.DataFrame(
        {stored.column.name: stored.values(mapped) for stored in columns}, copy=False
    )


def release_pages() -> None:
    """Take the columns of all mapped frames out of memory; those that are used again come back.

    Their pages stay in the page cache of the system as long as it has room.
    """
    for mapped in list(_mappings):
        mapped.madvise(mmap.MADV_DONTNEED)


@dataclass(slots=True)
class _Stored:
    """A column in the file, from ``first`` on; of a category the codes, as narrow as they fit."""

    column: Column
    num_rows: int
    first: int
    width: int = 0
    codes: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes that the column takes at most, in whole pages."""
        value = {_CATEGORY: _WIDEST_CODE, _NULLABLE: 9}.get(self.column.dtype)
        size = self.num_rows * (value or np.dtype(self.column.dtype).itemsize)
        return (size + 8 + _PAGE - 1) // _PAGE * _PAGE

    def write(self, file: int, done: int, values: pa.Array) -> None:
        """Write the values of the rows from ``done`` on."""
        if self.column.dtype == _CATEGORY:
            self._write_codes(file, done, values)
            return
        if self.column.dtype == _NULLABLE:
            missing = values.is_null().to_numpy(zero_copy_only=False)
            _write(file, self._missing_from + done, missing)
            values = values.fill_null(0)
        plain = values.to_numpy(zero_copy_only=False).astype(self._plain, copy=False)
        _write(file, self.first + done * plain.itemsize, plain)

    def values(self, mapped: mmap.mmap) -> Any:
        """All values, over the mapped file."""
        if self.column.dtype == _CATEGORY:
            codes = np.frombuffer(mapped, _CODES[self.width], self.num_rows, self.first)
            kind = pd.CategoricalDtype(pd.Index(list(self.codes), dtype=str))
            return pd.Categorical.from_codes(codes, dtype=kind, validate=False)
        plain = np.frombuffer(mapped, self._plain, self.num_rows, self.first)
        if self.column.dtype == _NULLABLE:
            missing = np.frombuffer(mapped, np.bool_, self.num_rows, self._missing_from)
            return pd.arrays.IntegerArray(plain, missing)
        return plain

    @property
    def _plain(self) -> np.dtype[np.generic]:
        return np.dtype("int64" if self.column.dtype == _NULLABLE else self.column.dtype)

    @property
    def _missing_from(self) -> int:
        return self.first + self.num_rows * 8

    def _write_codes(self, file: int, done: int, values: pa.DictionaryArray) -> None:
        names = values.dictionary.to_pylist()
        code_of: Int64s = np.array(
            [self.codes.setdefault(name, len(self.codes)) for name in names] + [-1], np.int64
        )
        width = next(
            place
            for place, kind in enumerate(_CODES)
            if len(self.codes) - 1 <= np.iinfo(kind).max and place >= self.width
        )
        if width > self.width:
            narrow = np.frombuffer(
                os.pread(file, done * np.dtype(_CODES[self.width]).itemsize, self.first),
                _CODES[self.width],
            )
            _write(file, self.first, narrow.astype(_CODES[width]))
            self.width = width
        # A missing value has the code -1, which is the last place.
        codes = code_of[values.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        kind = _CODES[self.width]
        _write(file, self.first + done * np.dtype(kind).itemsize, codes.astype(kind))


def _write(file: int, at: int, values: NDArray[np.generic]) -> None:
    left = memoryview(values.tobytes())
    while left:
        written = os.pwrite(file, left, at)
        left, at = left[written:], at + written
