"""A piece of a table as Arrow, column by column as it is, without a frame in between.

Tested in ``tests/ingest/storage/test_cached_pieces.py`` and ``tests/api/test_tables.py``.
"""

import functools
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from hvdprof.ingest.storage.blocks import Block, length_of
from hvdprof.model.schema import Table


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
