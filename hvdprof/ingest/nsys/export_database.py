"""The SQLite file of an export, opened without changing it.

The file is opened read-only and as immutable, so that no lock and no journal appears beside it;
only tables are read, never views. Tables exist only where something of their kind was recorded, and
columns differ by version: both are asked for first.
"""

import sqlite3
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.regular_file import shown_name

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
RANGES = "NVTX_EVENTS"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
STRINGS = "StringIds"
PUSH_POP_RANGES = (59, 70)
"""``eventType`` of ranges that nest on one thread; the second is that of NVTXT files."""
DOMAIN_CREATED = 75
"""``eventType`` of a row that names an NVTX domain."""


@contextmanager
def opened_export(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads the file; texts that are no UTF-8 are replaced.

    Raises:
        UnreadableInputError: The file is damaged, also where that shows only during the block.
    """
    uri = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            database.execute("PRAGMA trusted_schema = OFF")
            yield database
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # Messages of SQLite quote names of the file, which may be no UTF-8.
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise UnreadableInputError(
                f"{shown_name(path)} could not be sorted: the folder for temporary files is full.",
                hint="Set SQLITE_TMPDIR to a folder with as much room as the export takes.",
            ) from error
        raise UnreadableInputError(
            f"{shown_name(path)} is a damaged SQLite file ({error}); it is not read.",
            hint="Export it again: nsys export --type sqlite REPORT.nsys-rep.",
        ) from error


def columns_of(database: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table; empty where it does not exist."""
    kinds = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    if ("table",) not in kinds:
        return set()
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}


def version_of(database: sqlite3.Connection) -> str:
    """The version of Nsight Systems that wrote the export; empty where unknown."""
    if not columns_of(database, "META_DATA_EXPORT") >= {"name", "value"}:
        return ""
    row = database.execute(
        "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_PRODUCT_VERSION'"
    ).fetchone()
    return "" if row is None else str(row[0])


def is_nccl_kernel(name: str) -> bool:
    """Whether a kernel of that name communicates."""
    return name.lower().startswith("nccl")
