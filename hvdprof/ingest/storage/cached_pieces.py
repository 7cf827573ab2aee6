"""A table that is made piece by piece from other cached tables, and cached like them."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pandas as pd

from hvdprof.ingest.storage.blocks import block_of
from hvdprof.ingest.storage.cached_table import CachedTable, TableWriter
from hvdprof.ingest.storage.parquet_cache import cached_files, write_cached
from hvdprof.model.schema import Table


def cached_pieces(
    table: Table, source: Path, pieces: Callable[[], Iterator[pd.DataFrame]]
) -> CachedTable | None:
    """A table of a file, from the cache where it is there, else made and put there.

    Args:
        table: The declared table.
        source: The file, whose name its rows have as ``pass_id``.
        pieces: Makes its rows, some at a time.

    Returns:
        ``None`` where no place for a cache can be written to.

    Raises:
        OSError: The file cannot be looked at.
    """

    def write(writers: Mapping[str, TableWriter], folder: Path) -> None:
        for piece in pieces():
            writers[table.name].append(partial(block_of, piece))

    if cached_files((table,), (source,)) is None:
        write_cached((table,), (source,), write)
    files = cached_files((table,), (source,))
    return None if files is None else CachedTable(table, files[table.name], source)
