"""Rows of a declared table, gathered one by one and packed into arrays as they come."""

import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from hvdprof.ingest.storage.mapped_frame import mapped_frame
from hvdprof.model.arrays import Int64s
from hvdprof.model.schema import Table

_PACK_AT = 32_768
_ASIDE_AT = 1 << 17
MISSING = np.iinfo(np.int64).min
"""Stands for a missing number in columns of ``Rows.extend``."""

_NARROW = [(kind, np.iinfo(kind).min, np.iinfo(kind).max) for kind in (np.int8, np.int16, np.int32)]
_NULLABLE = ("Int64", "Int32", "boolean")

Values = tuple[Any, ...]
Packed = npt.NDArray[Any]


class Rows:
    """Grows by one row at a time; ``None`` stands where a value is missing.

    Packed columns are as narrow as their values allow and equal texts of a category are held once,
    so that the log of a long job fits.

    Args:
        table: The table to which the rows belong.
        aside: ``extend`` puts 131,072 rows at a time aside in a file, and ``frame`` maps them:
            memory does not grow with them. Both raise OSError where the file has no room.
    """

    def __init__(self, table: Table, *, aside: bool = False) -> None:
        self.table = table
        self._names = tuple(table.column_names)
        self._known = frozenset(self._names)
        self._fresh: list[Values] = []
        self._num_packed = 0
        self._codes: list[dict[str, int]] = [{} for _ in table.columns]
        self._packed: list[list[Packed]] = [[] for _ in table.columns]
        self._aside = aside
        self._file: IO[bytes] | None = None
        self._num_aside = self._num_pieces = 0

    def __len__(self) -> int:
        """How many rows were added so far, whether they were given up to a frame or not."""
        return self._num_packed + len(self._fresh)

    def append(self, *row: Any) -> None:
        """Add a row whose values stand in the order of the declared columns."""
        # Before, not after: the last row must be open to ``set_last``.
        if len(self._fresh) >= _PACK_AT:
            self._pack()
        self._fresh.append(row)

    def add(self, **values: Any) -> None:
        """Add a row by the names of its columns.

        Raises:
            KeyError: A column is not given.
            ValueError: A column is given that the table does not declare.
        """
        if not values.keys() <= self._known:
            unknown = ", ".join(sorted(values.keys() - self._known))
            raise ValueError(f"table {self.table.name} has no column {unknown}")
        self.append(*[values[name] for name in self._names])

    def extend(self, rows: Sequence[Values], which: Int64s, columns: Mapping[str, Packed]) -> None:
        """Add many rows that repeat a few.

        Args:
            rows: The different rows.
            which: For each new row, the place of the one that it repeats.
            columns: The columns of numbers in which they differ.
        """
        self._pack()
        for number, (name, values) in enumerate(
            zip(self._names, zip(*rows, strict=True), strict=True)
        ):
            own = columns.get(name)
            packed = (
                self._values(number, values)[which] if own is None else _plain(own, str(own.dtype))
            )
            self._packed[number].append(packed)
        self._num_packed += len(which)
        if self._aside and self._num_packed - self._num_aside >= _ASIDE_AT:
            self._put_aside()

    def set_last(self, **values: Any) -> None:
        """Replace values of the row that was added last."""
        known = dict(zip(self._names, self._fresh[-1], strict=True))
        self._fresh[-1] = tuple((known | values).values())

    def frame(self, replaced: Mapping[str, Int64s] | None = None) -> pd.DataFrame:
        """All rows as a frame of the declared columns; to be called once.

        The packed rows are given up column by column: both together would cost twice the memory.

        Args:
            replaced: For a column that held indices while reading: the value of each index, and
                -1 where that is missing.
        """
        self._pack()
        if not self._num_packed:
            return self.table.empty()
        if self._file is not None:
            self._put_aside()
            with self._file as file:
                pieces, folder = self._pieces(file, replaced or {}), Path(tempfile.gettempdir())
                return self.table.frame(mapped_frame(self.table, self._num_packed, pieces, folder))
        data = {
            column.name: self._column(number, column.dtype, (replaced or {}).get(column.name))
            for number, column in enumerate(self.table.columns)
        }
        return self.table.frame(pd.DataFrame(data, copy=False))

    def _pack(self) -> None:
        if not self._fresh:
            return
        for number, values in enumerate(zip(*self._fresh, strict=True)):
            self._packed[number].append(self._values(number, values))
        self._num_packed += len(self._fresh)
        self._fresh = []

    def _put_aside(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (ends with these rows)
            weakref.finalize(self, self._file.close)
        if self._num_packed > self._num_aside:
            for parts in self._packed:
                np.save(self._file, np.concatenate(parts), allow_pickle=False)
            self._packed = [[] for _ in self._packed]
            self._num_aside, self._num_pieces = self._num_packed, self._num_pieces + 1

    def _pieces(self, file: IO[bytes], replaced: Mapping[str, Int64s]) -> Iterator[pa.Table]:
        file.seek(0)
        for _ in range(self._num_pieces):
            arrays = {}
            for number, column in enumerate(self.table.columns):
                values = np.load(file)
                if column.dtype == "category":
                    names = pa.array(list(self._codes[number]), pa.string())
                    codes = pa.array(values.astype(np.int32))
                    arrays[column.name] = pa.DictionaryArray.from_arrays(codes, names)
                    continue
                if (values_of := replaced.get(column.name)) is not None:
                    values = _looked_up(values, values_of)
                arrays[column.name] = pa.array(values, mask=values == MISSING)
            yield pa.table(arrays)

    def _values(self, number: int, values: Values) -> Packed:
        dtype = self.table.columns[number].dtype
        if dtype == "category":
            return _coded(values, self._codes[number])
        return _PACKERS.get(dtype, _plain)(values, dtype)

    def _column(
        self, number: int, dtype: str, values_of: Int64s | None
    ) -> pd.api.extensions.ExtensionArray | Packed:
        parts, self._packed[number] = self._packed[number], []
        if dtype == "category":
            codes = np.concatenate(parts) if parts else np.empty(0, dtype=np.int8)
            categories = pd.Index(list(self._codes[number]), dtype=str)
            return pd.Categorical.from_codes(codes, categories=categories)
        wide = np.dtype(_wide(dtype))
        values = np.concatenate(parts, dtype=wide) if parts else np.empty(0, dtype=wide)
        if values_of is not None:
            values = _looked_up(values, values_of)
        # Through float64, where pandas puts missing numbers, times would lose their last digits.
        return _nullable(values, dtype) if dtype in _NULLABLE else values


def _coded(values: Values, codes: dict[str, int]) -> Packed:
    # A set has another order in each process, and groups of rows follow this one.
    for value in dict.fromkeys(values):
        if value not in codes:
            codes[value] = len(codes)
    return _narrow(np.fromiter((codes[value] for value in values), np.int32, len(values)))


def _marked(values: Values, dtype: str) -> Packed:
    """Whole numbers or flags with a number that stands for a missing one."""
    marked = (MISSING if value is None else value for value in values)
    return _narrow(np.fromiter(marked, np.int64, len(values)))


def _texts(values: Values, dtype: str) -> Packed:
    return np.array(values, dtype=object)


def _plain(values: Values | Packed, dtype: str) -> Packed:
    packed = np.asarray(values, dtype=np.dtype(dtype))
    return packed if packed.dtype.kind != "i" else _narrow(packed)


_PACKERS: dict[str, Callable[[Values, str], Packed]] = {
    **dict.fromkeys(_NULLABLE, _marked),
    "str": _texts,
}


def _wide(dtype: str) -> str:
    """What the parts of a column are put together as."""
    return {"str": "object", **dict.fromkeys(_NULLABLE, "int64")}.get(dtype, dtype)


def _looked_up(indices: Packed, values_of: Int64s) -> Packed:
    known = indices >= 0
    values = np.where(known, values_of[np.where(known, indices, 0)], -1)
    return np.where(values < 0, MISSING, values)


def _nullable(values: Packed, dtype: str) -> pd.api.extensions.ExtensionArray:
    missing = values == MISSING
    known = np.where(missing, 0, values)
    if dtype == "boolean":
        return pd.arrays.BooleanArray(known.astype(np.bool_), missing)
    return pd.arrays.IntegerArray(known.astype(np.dtype(dtype.lower())), missing)


def _narrow(values: Packed) -> Packed:
    """Whole numbers in the smallest type that holds all of them."""
    low, high = values.min(), values.max()
    for narrow, lowest, highest in _NARROW:
        if lowest <= low and high <= highest:
            return values.astype(narrow)
    return values
