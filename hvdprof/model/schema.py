"""How a table is declared: columns with dtype, unit and a sentence; frames checked against it."""

import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray
from pandas.api.types import pandas_dtype

# Arrow takes two to three times as long for the few rows that most tables have. The option is the
# process's: programs of users who import hvdprof have their own.
if "hvdprof.cli.main" in sys.modules and pd.get_option("mode.string_storage") == "auto":
    pd.set_option("mode.string_storage", "python")

_NUMBERS: Mapping[str, Set[type]] = {
    "float64": {float, int, np.float64},
    "int64": {int, np.int64},
    "bool": {bool, np.bool_},
}
"""Types whose values numpy turns into a dtype as they are."""

_PLAIN: Set[type] = {list, str, np.ndarray, pd.Categorical}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``dtype`` is a pandas dtype name, ``unit`` is empty for names and flags."""

    name: str
    dtype: str
    doc: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A declared table; one row is what ``doc`` says."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> list[str]:
        """The names of the columns in their order."""
        return [column.name for column in self.columns]

    def frame(
        self, data: Mapping[str, Any] | Sequence[Mapping[str, Any]] | pd.DataFrame
    ) -> pd.DataFrame:
        """Data as a frame of exactly the declared columns, order and dtypes.

        Args:
            data: Columns by name, a list of rows, or a frame. A declared column that is missing
                is an error, a column that is not declared too.

        Raises:
            ValueError: The columns are not the declared ones, or a value does not fit its dtype.
        """
        if not isinstance(data, pd.DataFrame):
            if isinstance(data, Sequence) and not data:
                return self.empty()
            if isinstance(data, Sequence) and _have(data, self.column_names):
                return pd.DataFrame(
                    {
                        column.name: _column([row[column.name] for row in data], column.dtype)
                        for column in self.columns
                    },
                    copy=False,
                )
            if isinstance(data, Mapping) and _are_plain(data, self.column_names):
                lengths = {len(values) for values in data.values() if not isinstance(values, str)}
                if lengths == {0}:
                    return self.empty()
                of = {one.name: _listed(data[one.name], one.dtype, lengths) for one in self.columns}
                return pd.DataFrame(of, copy=False)
            data = pd.DataFrame(data)
        names = self.column_names
        if list(data.columns) != names:
            unknown = sorted(set(data.columns) - set(names))
            missing = [name for name in names if name not in data.columns]
            if unknown or missing:
                raise ValueError(f"table {self.name}: missing columns {missing}, unknown {unknown}")
            data = data[names]
        rows = data.reset_index(drop=True)
        # Analyses make thousands of small frames: converting what is right already costs the most,
        # and so does DataFrame.astype, which puts one frame per column together again.
        dtypes = [column.dtype for column in self.columns]
        if all(has == dtype for has, dtype in zip(rows.dtypes, dtypes, strict=True)):
            return rows
        if rows.empty:
            return self.empty()
        converted = {
            name: _fitting(values, dtype)
            for (name, values), dtype in zip(rows.items(), dtypes, strict=True)
        }
        return pd.DataFrame(converted, copy=False)

    def empty(self) -> pd.DataFrame:
        """The table without rows."""
        # Without rows there are no values to share.
        return _without_rows(self).copy(deep=False)


def as_text(table: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """A table with some of its columns of names as text, as ``DataFrame.astype`` makes it."""
    changed = table.copy(deep=False)
    for name in names:
        changed[name] = text_of(table[name])
    return changed


def text_of(column: pd.Series) -> pd.Series:
    """A column of names as text."""
    values = column.array
    if not isinstance(values, pd.Categorical):
        return column.astype(str)
    # Categorical.astype makes an object of each row, which takes ten times as long.
    is_missing = bool((values.codes < 0).any())
    text = values.categories.astype(str).array.take(values.codes, allow_fill=is_missing)
    return pd.Series(text, index=column.index, name=column.name, copy=False)


def names(values: Sequence[str]) -> pd.Categorical:
    """Names as a categorical column, its categories in alphabetical order."""
    known = sorted(set(values))
    code_of = {name: code for code, name in enumerate(known)}
    codes = [code_of[value] for value in values]
    # Most ranks and passes have the same names, and making their dtype is most of the work.
    return pd.Categorical.from_codes(codes, dtype=dtype_of_names(tuple(known)), validate=False)


@lru_cache(maxsize=1024)
def dtype_of_names(known: tuple[str, ...]) -> pd.CategoricalDtype:
    """The dtype of a categorical column with these names in their order."""
    return pd.CategoricalDtype(pd.Index(list(known), dtype=str))


def _have(rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> bool:
    wanted = set(names)
    return all(row.keys() == wanted for row in rows)


def _are_plain(data: Mapping[str, object], names: Sequence[str]) -> bool:
    """Whether all columns are there as lists and arrays, or as one text for all rows."""
    types = {type(values) for values in data.values()}
    return types <= _PLAIN and not types <= {str} and data.keys() == set(names)


def _listed(
    values: list[object] | str | NDArray[np.generic] | pd.Categorical,
    dtype: str,
    lengths: Set[int],
) -> ExtensionArray | NDArray[np.generic]:
    if isinstance(values, list):
        return _column(values, dtype)
    if isinstance(values, str):
        return _column([values] * max(lengths), dtype)
    if isinstance(values, np.ndarray) and values.dtype == dtype:
        return values.copy()
    return _fitting(pd.Series(values), dtype)


def _column(values: list[object], dtype: str) -> ExtensionArray | NDArray[np.generic]:
    """Values of a declared dtype, without making pandas find theirs."""
    kinds = set(map(type, values))
    if dtype == "category" and kinds == {str}:
        return names([str(name) for name in values])
    if kinds <= _NUMBERS.get(dtype, set()):
        return np.array(values, dtype=dtype)
    return _fitting(pd.Series(values), dtype)


def _fitting(found: pd.Series, dtype: str) -> ExtensionArray:
    return found.array if found.dtype == dtype else _converted(found, dtype)


def _converted(values: pd.Series, dtype: str) -> ExtensionArray:
    if dtype == "category" and values.dtype == "str":
        codes, known = values.array.factorize()
        order = sorted(range(len(known)), key=known.tolist().__getitem__)
        # A missing name has the code -1, which is the last place.
        places = np.full(len(known) + 1, -1)
        places[order] = np.arange(len(known))
        categories = dtype_of_names(tuple(known.take(order)))
        return pd.Categorical.from_codes(places[codes], dtype=categories, validate=False)
    converted: ExtensionArray = values.astype(pandas_dtype(dtype)).array
    return converted


@cache
def _without_rows(table: Table) -> pd.DataFrame:
    columns = {column.name: _no_values(column.dtype) for column in table.columns}
    return pd.DataFrame(columns, copy=False)


@cache
def _no_values(dtype: str) -> ExtensionArray:
    # A series for each column of each table takes a tenth of a short command.
    return pd.Series([], dtype=dtype).array
