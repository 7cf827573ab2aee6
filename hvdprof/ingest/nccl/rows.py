"""Rows of a declared table, gathered one by one and packed into arrays as they come."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hvdprof.model.schema import Table

_PACK_AT = 32_768
_MISSING = np.iinfo(np.int64).min


class Rows:
    """Rows as tuples in the order of the declared columns; ``None`` where a value is missing.

    Packed columns are as narrow as their values allow, so that the log of a long job fits.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._fresh: list[tuple[Any, ...]] = []
        self._codes: list[dict[str, int]] = [{} for _ in table.columns]
        self._packed: list[list[npt.NDArray[Any]]] = [[] for _ in table.columns]

    def add(self, *row: Any) -> None:
        """Add one row."""
        self._fresh.append(row)
        if len(self._fresh) >= _PACK_AT:
            self._pack()

    def frame(self, replaced: Mapping[str, npt.NDArray[np.int64]] | None = None) -> pd.DataFrame:
        """All rows as a frame of the declared columns; the packed rows are given up for it.

        Args:
            replaced: For a column that held indices while reading: the value of each index, and
                -1 where that is missing.
        """
        self._pack()
        data = {
            column.name: self._column(number, column.name, column.dtype, replaced or {})
            for number, column in enumerate(self._table.columns)
        }
        return self._table.frame(pd.DataFrame(data, copy=False))

    def _pack(self) -> None:
        if not self._fresh:
            return
        for number, values in enumerate(zip(*self._fresh, strict=True)):
            dtype = self._table.columns[number].dtype
            self._packed[number].append(_packed(values, dtype, self._codes[number]))
        self._fresh = []

    def _column(
        self, number: int, name: str, dtype: str, replaced: Mapping[str, npt.NDArray[np.int64]]
    ) -> Any:
        parts, self._packed[number] = self._packed[number], []
        if dtype == "category":
            codes = np.concatenate(parts) if parts else np.empty(0, dtype=np.int8)
            names = pd.Index(list(self._codes[number]), dtype=str)
            return pd.Categorical.from_codes(codes, categories=names)
        wide = np.float64 if dtype == "float64" else np.int64
        values = np.concatenate(parts, dtype=wide) if parts else np.empty(0, dtype=wide)
        if name in replaced:
            known = values >= 0
            values = np.where(known, replaced[name][np.where(known, values, 0)], -1)
            values = np.where(values < 0, _MISSING, values)
        if dtype == "Int64":
            missing = values == _MISSING
            return pd.arrays.IntegerArray(np.where(missing, 0, values).astype(np.int64), missing)
        return values


def _packed(values: tuple[Any, ...], dtype: str, codes: dict[str, int]) -> npt.NDArray[Any]:
    if dtype == "category":
        for value in set(values):
            if value not in codes:
                codes[value] = len(codes)
        return _narrow(np.fromiter((codes[value] for value in values), np.int32, len(values)))
    if dtype == "Int64":
        return _narrow(
            np.fromiter(
                (_MISSING if value is None else value for value in values), np.int64, len(values)
            )
        )
    packed = np.asarray(values, dtype=np.dtype(dtype))
    return packed if packed.dtype.kind != "i" else _narrow(packed)


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers in the smallest type that holds all of them."""
    low, high = values.min(), values.max()
    for narrow in (np.int8, np.int16, np.int32):
        limits = np.iinfo(narrow)
        if limits.min <= low and high <= limits.max:
            return values.astype(narrow)
    return values
