"""SQL over declared tables, with DuckDB: one SELECT, no files, nothing changed, within bounds."""

import importlib.util
import multiprocessing
import os
import re
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from hvdprof.errors import HvdprofError, InterruptedRunError, MissingExtraError, UsageError
from hvdprof.model.cached_rows import CachedRows
from hvdprof.model.table_catalogue import TABLES
from hvdprof.report.table_files import arrow_table

if TYPE_CHECKING:
    import duckdb

Batches = Callable[[], Iterator[pa.Schema | pa.RecordBatch]]
"""Runs the statement: gives the schema of its rows, then the rows."""

_BESIDE_BYTES = 256_000_000
_STACK_BYTES = 10_000_000

_BATCH_ROWS = 10_000
Named = Mapping[str, pd.DataFrame | CachedRows | None]
"""The tables that a statement may name; None for those without rows."""

_AT_LINE = re.compile(r"\n\nLINE (?P<line>\d+): (?P<text>[^\n]*)\n(?P<caret> *)\^")


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What a statement may take: ``memory_gb`` of 10^9 bytes, and ``timeout_s``."""

    memory_gb: float = 4.0
    timeout_s: float = 300.0

    @property
    def bytes(self) -> int:
        """The memory in bytes."""
        return round(self.memory_gb * 1e9)

    def memory_error(self) -> UsageError:
        """What is raised where the memory does not suffice."""
        return UsageError(
            f"The query needs more than {self.memory_gb:g} GB of memory.",
            hint="Ask for less, or set --memory-limit.",
        )


def run_bounded(batches: Batches, limits: QueryLimits) -> pa.Table:
    """The result of a statement.

    Args:
        batches: Called in the new process; no thread of the libraries that it uses may run before.
        limits: Of that process, and of the rows that it returns.

    Raises:
        UsageError: It needs more memory or time than the limits.
        InterruptedRunError: Ctrl-C.
        HvdprofError: ``batches`` raised it.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_answer, args=(batches, limits, sender), daemon=True)
    with warnings.catch_warnings():
        # Arrow's threads, of which Python 3.12 warns, stand the fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    try:
        return _collected(receiver, limits)
    except KeyboardInterrupt as error:
        raise InterruptedRunError("The query was interrupted.") from error
    except EOFError as error:
        process.join()
        if process.exitcode is None or process.exitcode >= 0:
            raise
        # A signal ended it: DuckDB aborts where an allocation must not fail.
        raise limits.memory_error() from error
    finally:
        process.kill()
        process.join()
        receiver.close()


def _collected(receiver: Connection, limits: QueryLimits) -> pa.Table:
    """The rows, batch by batch: the limit of the process does not hold for those it returns."""
    deadline = time.monotonic() + limits.timeout_s
    schema, left = None, limits.bytes
    batches: list[pa.RecordBatch] = []
    while receiver.poll(max(deadline - time.monotonic(), 0.0)):
        received = receiver.recv()
        if received is None:
            return pa.Table.from_batches(batches, schema=schema)
        if isinstance(received, HvdprofError):
            raise received
        if schema is None:
            schema = received
            continue
        batches.append(received)
        left -= received.nbytes
        if left < 0:
            raise limits.memory_error()
    raise UsageError(
        f"The query took longer than {limits.timeout_s:g} s and was ended.",
        hint="Ask for less, or set --timeout.",
    )


def _answer(batches: Batches, limits: QueryLimits, sender: Connection) -> None:
    """Send what a statement gives: its schema, its rows and None; or what is wrong with it."""
    # The parent ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    most = _data_bytes() + limits.bytes + _BESIDE_BYTES + _STACK_BYTES * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))
    try:
        for batch in batches():
            sender.send(batch)
        sender.send(None)
    except HvdprofError as error:
        sender.send(error)
    except MemoryError:
        sender.send(limits.memory_error())


def _data_bytes() -> int:
    """The private memory that the process has by now."""
    data = Path("/proc/self/statm").read_text(encoding="ascii").split()[5]
    return int(data) * resource.getpagesize()


def query(
    tables: Mapping[str, pd.DataFrame | CachedRows],
    statement: str,
    limits: QueryLimits = QueryLimits(),
) -> pa.Table:
    """The result of a SELECT over some tables; declared tables that are not given are empty.

    Args:
        tables: Declared tables by name; of one that is cached in a file only the columns and rows
            that the statement needs are read.
        statement: One SELECT (or WITH, FROM, DESCRIBE, SUMMARIZE) in DuckDB's SQL.
        limits: Of memory and time.

    Raises:
        MissingExtraError: DuckDB is not installed.
        UsageError: The statement is none, more than one, no SELECT, or wrong; or it needs more than
            the limits.
        InterruptedRunError: Ctrl-C.
    """
    if importlib.util.find_spec("duckdb") is None:
        raise MissingExtraError("hvdprof sql", extra="sql")
    words = statement.lower()
    # Files of some tables are read at their first use, or put into the cache.
    named = {table.name: tables.get(table.name) for table in TABLES if table.name in words}
    return run_bounded(lambda: _batches(named, statement, limits), limits)


def _batches(
    named: Named, statement: str, limits: QueryLimits
) -> Iterator[pa.Schema | pa.RecordBatch]:
    """The schema of the result, then its rows.

    Raises:
        UsageError: As ``query``.
    """
    import duckdb

    connection = duckdb.connect(":memory:")
    try:
        statements = connection.extract_statements(statement)
        if len(statements) != 1:
            raise UsageError(
                f"{len(statements) or 'No'} SQL statements were given; one is run.", hint=_HINT
            )
        kind = statements[0].type.name
        if kind not in ("SELECT", "SELECT_STATEMENT"):
            raise UsageError(
                f"Only SELECT is run, not {kind.replace('_STATEMENT', '').replace('_', ' ')}.",
                hint="The tables are made from the files each time; write results with -o.",
            )
        _add_tables(connection, named, limits)
        try:
            relation = connection.sql(statement)
        except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException):
            # Its other method says at which position, before it runs anything.
            connection.execute(statement)
            raise
        # DuckDB before 2.0 takes some pragmas for a SELECT.
        if relation is None:
            raise duckdb.InvalidInputException("the statement gives no rows")
        reader = relation.to_arrow_reader(_BATCH_ROWS)
        yield reader.schema
        yield from reader
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise limits.memory_error() from error
    except (duckdb.Error, OSError, pa.ArrowException) as error:
        # Arrow hands on what goes wrong behind the first batch.
        if "Out of Memory" in str(error):
            raise limits.memory_error() from error
        raise UsageError(_message(str(error), statement), hint=_HINT) from error
    finally:
        connection.close()


def _add_tables(connection: "duckdb.DuckDBPyConnection", named: Named, limits: QueryLimits) -> None:
    """Add the tables that a statement names; from then on SQL reaches these and nothing else."""
    cached = {}
    for table in TABLES:
        rows = named.get(table.name)
        if rows is None or isinstance(rows, pd.DataFrame):
            frame = table.empty() if rows is None else rows
            connection.register(table.name, arrow_table(table.name, frame))
        else:
            cached[table.name] = rows
            _add_view(connection, rows)
    allowed = ", ".join(_quoted(rows.path) for rows in cached.values())
    for setting in (
        f"memory_limit = '{limits.memory_gb:f}GB'",
        # Without it, DuckDB would fill a folder of the working directory instead.
        "temp_directory = ''",
        f"allowed_paths = [{allowed}]",
        "python_enable_replacements = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")


_HINT = "hvdprof sql PATH --tables lists the tables and columns."


def _add_view(connection: "duckdb.DuckDBPyConnection", rows: CachedRows) -> None:
    # DuckDB cannot prepare a view, so names stand in it as text.
    connection.execute(
        f"CREATE VIEW {rows.table.name} AS SELECT * REPLACE ({_quoted(rows.pass_id)} AS pass_id) "
        f"FROM read_parquet({_quoted(rows.path)})"
    )


def _quoted(text: str | Path) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def _message(text: str, statement: str) -> str:
    """DuckDB's message as one line, with the position in the statement where it names one."""
    first = text.partition("\n")[0].rstrip(".!")
    found = _AT_LINE.search(text)
    if found is None:
        return f"{first}."
    shown = found["text"]
    column = len(found["caret"]) - len(f"LINE {found['line']}: ")
    lines = statement.splitlines()
    number = int(found["line"])
    if shown.startswith("...") and number <= len(lines):
        # A long line is shown in part.
        column += lines[number - 1].find(shown.strip(".")) - 3
    return f"{first}, at line {number}, column {column + 1}."
