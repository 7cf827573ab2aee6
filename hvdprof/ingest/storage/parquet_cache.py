"""Tables of a parsed file in a cache of Parquet files, so that the file is parsed once.

The cache is the folder ``.hvdprof-cache`` beside the file, else one in the user's cache folder. It
serves only while the file is the one it was (``source_key``), and the declared columns and
hvdprof's version are the same; files of other users are not used. It is written whole or not at
all. A cache that is damaged is made anew, and where none can be written the tables are built each
time: neither changes the result.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from hvdprof.errors import StorageError
from hvdprof.ingest.storage.blocks import block_of
from hvdprof.ingest.storage.sealed_file import find_sealed, opened, seal, source_key
from hvdprof.machine.install.cache_folder import cache_folder
from hvdprof.model.schema import Table
from hvdprof.rundir.trusted_file import trusted_folder
from hvdprof.rundir.written_file import open_whole

if TYPE_CHECKING:
    from hvdprof.ingest.storage.cached_table import CachedTable, TableWriter

CACHE_FROM_BYTES = 32_000_000
"""Smaller inputs are parsed as fast as they are found in a cache, and leave nothing beside them."""

FOLDER = ".hvdprof-cache"
"""Name of the folder beside the file."""

_KEY_LETTERS = 16


def cached_frames(
    tables: Sequence[Table],
    sources: Sequence[Path],
    build: Callable[[], Mapping[str, pd.DataFrame]],
    key: str | None = None,
) -> dict[str, pd.DataFrame]:
    """Several tables that are built together from one or more files, by their names.

    Args:
        tables: The declared tables.
        sources: The files that they are built from, at least one; the cache is beside the first.
        build: Builds them all; called where the cache lacks one of them.
        key: As for ``cached_files``.

    Returns:
        The frames by name of the table, checked against it.

    Raises:
        OSError: A file cannot be looked at.
        ValueError: What was built is not as declared.
    """
    import pyarrow.parquet as pq

    from hvdprof.ingest.storage.cached_table import frame_of

    files = cached_files(tables, sources, key)
    if files is not None:
        # A cache that cannot be read is built again.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            return {
                table.name: table.frame(frame_of(pq.read_table(opened(files[table.name]))))
                for table in tables
            }
    frames: dict[str, pd.DataFrame] = {}

    def write(writers: "Mapping[str, TableWriter]", folder: Path) -> None:
        if not frames:
            built = build()
            frames.update({table.name: table.frame(built[table.name]) for table in tables})
        for name, writer in writers.items():
            writer.append(partial(block_of, frames[name]))

    write_cached(tables, sources, write, key)
    if not frames:
        write({}, Path())
    return frames


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
        files = {}
        for table in tables:
            found = find_sealed(folder, _stem(table, sources[0], key), sources[0])
            if found is None:
                break
            files[table.name] = found
        else:
            return files
    return None


def cached_pieces(
    table: Table, source: Path, pieces: Callable[[], Iterator[pd.DataFrame]]
) -> "CachedTable | None":
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
    from hvdprof.ingest.storage.cached_table import CachedTable

    def write(writers: "Mapping[str, TableWriter]", folder: Path) -> None:
        for piece in pieces():
            writers[table.name].append(partial(block_of, piece))

    if cached_files((table,), (source,)) is None:
        write_cached((table,), (source,), write)
    files = cached_files((table,), (source,))
    return None if files is None else CachedTable(table, files[table.name], source)


def write_cached(
    tables: Sequence[Table],
    sources: Sequence[Path],
    write: "Callable[[Mapping[str, TableWriter], Path], None]",
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
    from hvdprof.ingest.storage.cached_table import TableWriter

    # The key is that of before: a file that changes while it is read is read again.
    key = key or source_key(sources)
    stems = {table.name: _stem(table, sources[0], key) for table in tables}
    for folder in _folders(sources[0]):
        if not trusted_folder(folder, beside=sources[0]):
            continue
        try:
            with contextlib.ExitStack() as opened:
                thread = opened.enter_context(ThreadPoolExecutor(1))
                writers = {}
                for table in tables:
                    path = folder / f"{stems[table.name]}.parquet"
                    file = opened.enter_context(open_whole(path, binary=True))
                    writers[table.name] = TableWriter(table, file, thread)
                    opened.callback(writers[table.name].close)
                write(writers, folder)
        except (StorageError, pa.ArrowException):
            continue
        try:
            sealed = {name: seal(folder / f"{stem}.parquet") for name, stem in stems.items()}
        except OSError:
            continue
        for name, path in sealed.items():
            _drop_older(path, stems[name])
        return


def _stem(table: Table, source: Path, key: str) -> str:
    """The name of a cached file, without its checksum."""
    columns = [f"{column.name}:{column.dtype}" for column in table.columns]
    digest = hashlib.sha256("\0".join([key, *columns]).encode())
    return f"{source.name}-{table.name}-{digest.hexdigest()[:_KEY_LETTERS]}"


def _folders(source: Path) -> Iterator[Path]:
    yield source.parent / FOLDER
    yield cache_folder() / "tables"


def _drop_older(path: Path, stem: str) -> None:
    """Remove the files of the same table and source that were made before."""
    begin = stem[: len(stem) - _KEY_LETTERS]
    # Without a checksum in their names earlier versions wrote them.
    lengths = (len(path.name), len(stem) + len(path.suffix))
    for older in path.parent.iterdir():
        name = older.name
        if name.startswith(begin) and len(name) in lengths and name != path.name:
            with contextlib.suppress(OSError):
                older.unlink()
