"""Many small pieces of one table to one frame or to Arrow, without names as text per row."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from hvdprof.model.schema import Table, dtype_of_names

Block = Mapping[str, Any]
"""Columns of a piece of a table: arrays of one length, and single values that hold for all rows."""


def stacked(table: Table, blocks: Sequence[Block]) -> pd.DataFrame:
    """The pieces below each other as a frame of the declared columns and dtypes."""
    if not blocks:
        return table.empty()
    lengths = [length_of(block) for block in blocks]
    columns = {}
    for column in table.columns:
        values = [block[column.name] for block in blocks]
        if column.dtype == "category":
            columns[column.name] = _joined_names(values, lengths)
        else:
            columns[column.name] = _joined(values, lengths, column.dtype)
    return table.frame(pd.DataFrame(columns))


def block_of(frame: pd.DataFrame) -> Block:
    """The columns of a frame as a piece."""
    return {str(name): frame[name].array for name in frame.columns}


def length_of(block: Block) -> int:
    """The number of rows of a piece; 1 where all of its values are single."""
    return max((len(value) for value in block.values() if not _single(value)), default=1)


def _single(value: Any) -> bool:
    return isinstance(value, (str, int, float)) or np.ndim(value) == 0


def _joined_names(values: Sequence[Any], lengths: Sequence[int]) -> Any:
    """The codes of all pieces under one set of names: a thousand ranks give thousands of pieces."""
    code_of: dict[str, int] = {}
    parts = []
    for value, length in zip(values, lengths, strict=True):
        if isinstance(value, str):
            parts.append(np.full(length, code_of.setdefault(value, len(code_of)), np.int32))
            continue
        own = [code_of.setdefault(name, len(code_of)) for name in value.categories.tolist()]
        # A missing name has the code -1, which is the last place.
        parts.append(np.array([*own, -1], np.int32)[value.codes])
    return pd.Categorical.from_codes(
        np.concatenate(parts), dtype=dtype_of_names(tuple(code_of)), validate=False
    )


def _joined(values: Sequence[Any], lengths: Sequence[int], dtype: str) -> Any:
    if dtype == "Int64":
        return pd.concat([pd.Series(value, dtype=dtype) for value in values], ignore_index=True)
    parts = [
        np.full(length, value) if _single(value) else np.asarray(value)
        for value, length in zip(values, lengths, strict=True)
    ]
    return np.concatenate(parts)


@functools.lru_cache(maxsize=64)
def schema_of(table: Table) -> pa.Schema:
    """The columns of a declared table as Arrow has them; names stand in dictionaries."""
    schema = pa.Schema.from_pandas(table.empty(), preserve_index=False)
    for number, column in enumerate(table.columns):
        if column.dtype == "category":
            field = pa.field(column.name, pa.dictionary(pa.int32(), pa.string()))
            schema = schema.set(number, field)
    return schema


def arrow_rows(schema: pa.Schema, block: Block) -> pa.Table:
    """A piece with exactly the columns of a schema, in its order.

    Raises:
        ValueError: It has other columns.
    """
    if set(schema.names) != set(block):
        raise ValueError(f"columns {sorted(set(schema.names) ^ set(block))} are not in both")
    length = length_of(block)
    columns = [_column(block[field.name], field.type, length) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(values: Any, kind: pa.DataType, length: int) -> pa.Array:
    if isinstance(values, pd.Series):
        values = values.array
    if pa.types.is_dictionary(kind):
        return _names(values, length)
    if np.ndim(values) == 0:
        values = np.full(length, values)
    return pa.array(values, kind, from_pandas=True)


def _names(values: Any, length: int) -> pa.Array:
    if isinstance(values, str):
        return pa.DictionaryArray.from_arrays(np.zeros(length, np.int32), pa.array([values]))
    codes = values.codes.astype(np.int32)
    missing = codes < 0
    names = pa.array(values.categories.tolist(), pa.string())
    indices = pa.array(codes, mask=missing) if missing.any() else pa.array(codes)
    return pa.DictionaryArray.from_arrays(indices, names)
