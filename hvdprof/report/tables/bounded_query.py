"""A statement that runs in DuckDB with bounds on memory and time, and ends with Ctrl-C.

Tested by tests/report/tables/test_table_query.py.
"""

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hvdprof.errors import InterruptedRunError, UsageError

if TYPE_CHECKING:
    import duckdb


_BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What a statement may take: ``memory_gb`` of 10^9 bytes, and ``timeout_s``."""

    memory_gb: float = 4.0
    timeout_s: float = 300.0


def run_bounded(
    connection: "duckdb.DuckDBPyConnection", statement: str, limits: QueryLimits
) -> pa.Table:
    """The result of a statement.

    Raises:
        UsageError: It needs more memory or time than the limits.
        InterruptedRunError: Ctrl-C.
        duckdb.Error: The statement is wrong.
    """
    import duckdb

    query = _Query(connection, statement, limits)
    try:
        query.start()
        is_late = not query.ended.wait(limits.timeout_s)
    except KeyboardInterrupt as error:
        query.stop()
        raise InterruptedRunError("The query was interrupted.") from error
    if is_late:
        query.stop()
        raise UsageError(
            f"The query took longer than {limits.timeout_s:g} s and was ended.",
            hint="Ask for less, or set --timeout.",
        )
    if isinstance(query.error, duckdb.OutOfMemoryException):
        raise UsageError(
            f"The query needs more than {limits.memory_gb:g} GB of memory.",
            hint="Ask for less, or set --memory-limit.",
        ) from query.error
    if query.error is not None:
        raise query.error
    assert query.result is not None
    return query.result


class _Query:
    """The statement in a thread of its own: the main thread stays free for signals."""

    def __init__(
        self, connection: "duckdb.DuckDBPyConnection", statement: str, limits: QueryLimits
    ) -> None:
        self.ended = threading.Event()
        self.result: pa.Table | None = None
        self.error: BaseException | None = None
        self._connection, self._statement, self._limits = connection, statement, limits
        self._thread = threading.Thread(target=self._run, name="hvdprof-sql", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the statement; returns when it has ended."""
        while not self.ended.wait(0.05):
            # An interrupt before the statement begins has no effect.
            self._connection.interrupt()

    def _run(self) -> None:
        try:
            self.result = self._streamed()
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()

    def _streamed(self) -> pa.Table:
        """The rows, collected batch by batch: DuckDB's limit does not hold for those it returns."""
        import duckdb

        try:
            relation = self._connection.sql(self._statement)
            # DuckDB before 2.0 takes some pragmas for a SELECT.
            if relation is None:
                raise duckdb.InvalidInputException("the statement gives no rows")
            reader = relation.to_arrow_reader(_BATCH_ROWS)
            batches, left = [], self._limits.memory_gb * 1e9
            for batch in reader:
                left -= batch.nbytes
                if left < 0:
                    raise duckdb.OutOfMemoryException("the rows are too many")
                batches.append(batch)
            return pa.Table.from_batches(batches, schema=reader.schema)
        except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException):
            # Its other method says at which position, before it runs anything.
            self._connection.execute(self._statement)
            raise
        except (OSError, pa.ArrowException) as error:
            # Arrow hands on what goes wrong behind the first batch.
            is_memory = "Out of Memory" in str(error)
            kind = duckdb.OutOfMemoryException if is_memory else duckdb.Error
            raise kind(str(error)) from error
