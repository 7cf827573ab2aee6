"""SQL over declared tables, with DuckDB: one SELECT, no files, no network, nothing changed."""

import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from hvdprof.errors import MissingExtraError, UsageError
from hvdprof.model.cached_rows import CachedRows
from hvdprof.model.table_catalogue import TABLES
from hvdprof.report.tables.bounded_query import QueryLimits, run_bounded
from hvdprof.report.tables.table_files import arrow_table

if TYPE_CHECKING:
    import duckdb

_BATCH_ROWS = 10_000
Named = Mapping[str, pd.DataFrame | CachedRows | None]
"""The tables that a statement may name; None for those without rows."""

_AT_LINE = re.compile(r"\n\nLINE (?P<line>\d+): (?P<text>[^\n]*)\n(?P<caret> *)\^")


def query(
    tables: Mapping[str, pd.DataFrame | CachedRows],
    statement: str,
    limits: QueryLimits = QueryLimits(),  # noqa: B008 - immutable
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
        _refuse_other_than_select(connection, statement)
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


def _add_tables(
    connection: "duckdb.DuckDBPyConnection",
    named: Named,
    limits: QueryLimits,
) -> None:
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


def _refuse_other_than_select(connection: "duckdb.DuckDBPyConnection", statement: str) -> None:
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
