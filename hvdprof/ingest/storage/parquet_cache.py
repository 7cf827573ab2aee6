"""Tables of a parsed file in a cache of Parquet files, so that the file is parsed once.

The cache is the folder ``.hvdprof-cache`` beside the file, else one in the user's cache folder. It
serves only while the file has the size and the time of change it had, and the declared columns and
hvdprof's version are the same. It is written whole or not at all. A cache that cannot be read is
made anew, and where none can be written the tables are built each time: neither changes the result.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hvdprof import __version__
from hvdprof.errors import StorageError
from hvdprof.ingest.storage.arrow_block import arrow_rows, schema_of
from hvdprof.ingest.storage.blocks import Block, block_of
from hvdprof.ingest.storage.cached_table import category_names, frame_of
from hvdprof.machine.install.cache_folder import cache_folder
from hvdprof.model.schema import Table
from hvdprof.rundir.whole_file import open_whole

CACHE_FROM_BYTES = 32_000_000
"""Smaller inputs are parsed as fast as they are found in a cache, and leave nothing beside them."""

FOLDER = ".hvdprof-cache"
"""Name of the folder beside the file."""

_KEY_LETTERS = 16
_CODEC = "lz4"
FEWEST_ROWS_OF_PIECE = 1 << 16
"""The writer holds the metadata of each piece until the end of the file."""

_PRUNED_BY = ("step", "start_ns")
"""Columns by which a query can leave out pieces; bounds of every column cost a third of the time
and, with a thousand pieces, many megabytes."""


def cached_frames(
    tables: Sequence[Table],
    sources: Sequence[Path],
    build: Callable[[], Mapping[str, pd.DataFrame]],
) -> dict[str, pd.DataFrame]:
    """Several tables that are built together from one or more files, by their names.

    Args:
        tables: The declared tables.
        sources: The files that they are built from, at least one; the cache is beside the first.
        build: Builds them all; called where the cache lacks one of them.

    Returns:
        The frames by name of the table, checked against it.

    Raises:
        OSError: A file cannot be looked at.
        ValueError: What was built is not as declared.
    """
    files = cached_files(tables, sources)
    if files is not None:
        # A cache that cannot be read is built again.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            return {
                table.name: table.frame(frame_of(pq.read_table(files[table.name])))
                for table in tables
            }
    frames: dict[str, pd.DataFrame] = {}

    def write(writers: Mapping[str, TableWriter], folder: Path) -> None:
        if not frames:
            built = build()
            frames.update({table.name: table.frame(built[table.name]) for table in tables})
        for name, writer in writers.items():
            writer.append(partial(block_of, frames[name]))

    write_cached(tables, sources, write)
    if not frames:
        write({}, Path())
    return frames


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


def cached_files(
    tables: Sequence[Table], sources: Sequence[Path], key: str | None = None
) -> dict[str, Path] | None:
    """The Parquet files of tables by their names; ``None`` where the cache lacks one of them.

    Args:
        tables: The declared tables.
        sources: The files that they are built from, at least one; the cache is beside the first.
        key: The ``source_key`` of the sources when they were read; that of now if not given.

    Raises:
        OSError: A source cannot be looked at.
    """
    key = key or source_key(sources)
    for folder in _folders(sources[0]):
        files = {table.name: folder / _name(table, sources[0], key) for table in tables}
        if all(_is_whole(path) for path in files.values()):
            return files
    return None


def write_cached(
    tables: Sequence[Table],
    sources: Sequence[Path],
    write: Callable[[Mapping[str, TableWriter], Path], None],
    key: str | None = None,
) -> None:
    """Put tables into the cache, if that can be done.

    Args:
        tables: The declared tables.
        sources: The files that they are built from, at least one; the cache is beside the first.
        write: Appends all rows of all tables to the writers, by the names of the tables; the
            folder has room for temporary files. Called again for the next folder where one cannot
            be written to.
        key: As for ``cached_files``.

    Raises:
        OSError: A source cannot be looked at.
    """
    # The key is that of before: a file that changes while it is read is read again.
    key = key or source_key(sources)
    names = {table.name: _name(table, sources[0], key) for table in tables}
    for folder in _folders(sources[0]):
        try:
            with contextlib.ExitStack() as opened:
                thread = opened.enter_context(ThreadPoolExecutor(1))
                writers = {}
                for table in tables:
                    path = folder / names[table.name]
                    file = opened.enter_context(open_whole(path, binary=True))
                    writers[table.name] = TableWriter(table, file, thread)
                    opened.callback(writers[table.name].close)
                write(writers, folder)
        except (StorageError, pa.ArrowException):
            continue
        for name in names.values():
            _drop_older(folder, name)
        return


def _is_whole(path: Path) -> bool:
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowException):
        return False
    return True


def _encodings(table: Table) -> dict[str, str]:
    whole_numbers = ("int64", "Int64")
    return {
        column.name: "DELTA_BINARY_PACKED"
        for column in table.columns
        if column.dtype in whole_numbers
    }


def source_key(sources: Sequence[Path]) -> str:
    """What identifies the content of files: their places, sizes and times of change.

    Raises:
        OSError: A file cannot be looked at.
    """
    parts = [__version__]
    for source in sources:
        stat = source.stat()
        parts += [str(source.resolve()), str(stat.st_size), str(stat.st_mtime_ns)]
    return "\0".join(parts)


def _name(table: Table, source: Path, key: str) -> str:
    columns = [f"{column.name}:{column.dtype}" for column in table.columns]
    digest = hashlib.sha256("\0".join([key, *columns]).encode("utf-8", "surrogateescape"))
    return f"{source.name}-{table.name}-{digest.hexdigest()[:_KEY_LETTERS]}.parquet"


def _folders(source: Path) -> Iterator[Path]:
    yield source.parent / FOLDER
    yield cache_folder() / "tables"


def _drop_older(folder: Path, name: str) -> None:
    stem = name[: -len(".parquet") - _KEY_LETTERS]
    for path in folder.iterdir():
        is_of_same = path.name.startswith(stem) and len(path.name) == len(name)
        if is_of_same and path.name != name:
            with contextlib.suppress(OSError):
                path.unlink()
