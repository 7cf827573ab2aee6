"""`hvdprof sql`: SQL queries on the tables of a run or of any file."""

import functools
import re
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from hvdprof import api
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.measuring.chosen_run import chosen_paths
from hvdprof.cli.progress.load_progress import load_progress
from hvdprof.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_STATEMENT = re.compile(r"\s*(?:SELECT|WITH|FROM)\s", re.IGNORECASE)


class ResultFormat(StrEnum):
    """The formats of a result."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def sql(
    path: Annotated[
        str | None,
        typer.Argument(
            help="Run directory, file, or folder of files; the newest run in ./runs when not "
            "given.",
            show_default=False,
        ),
    ] = None,
    statement: Annotated[
        str | None, typer.Argument(help="One SELECT in DuckDB's SQL.", show_default=False)
    ] = None,
    list_tables: Annotated[
        bool, typer.Option("--tables", help="List the tables with their columns and units.")
    ] = False,
    format_: Annotated[
        ResultFormat | None,
        format_option(
            tuple(ResultFormat),
            "Format; the name of --output chooses it when not given, else table.",
        ),
    ] = None,
    vertical: Annotated[
        bool, typer.Option("--vertical", help="One line per column instead of one per row.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write, .csv or .json.", show_default=False),
    ] = None,
    memory_limit: Annotated[
        float, typer.Option("--memory-limit", help="GB of memory that the query may take.")
    ] = 4.0,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds after which the query is ended.")
    ] = 300.0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Query the tables of a run, a timeline or a log with SQL.

    The statement can read these tables and nothing else: no files, no network, no changes.
    """
    from hvdprof.report.formats import write_text
    from hvdprof.report.table_files import render_catalogue
    from hvdprof.report.table_query import QueryLimits, query

    if path and _STATEMENT.match(path):
        path, statement = statement, path
    if (statement is None) != list_tables:
        raise UsageError(
            "Give one statement, or --tables.",
            hint='hvdprof sql RUN "SELECT model, np, efficiency FROM scaling"',
        )
    if list_tables and (vertical or output or format_):
        raise UsageError(
            "--tables lists the tables in the terminal.", hint="Omit --vertical, --format, -o."
        )
    for name, value in (("--memory-limit", memory_limit), ("--timeout", timeout)):
        # Threads cannot wait for longer than some centuries.
        if not 0.01 <= value <= 1e9:
            raise UsageError(f"{name} {value:g}: give 0.01 or more, at most 1e9.")
    chosen = format_ or _format_of(output)
    if vertical and chosen is not ResultFormat.TABLE:
        raise UsageError(f"--vertical shapes a table, not {chosen}.", hint="Omit one of them.")
    paths = chosen_paths([Path(path)] if path else None, "hvdprof sql RUN --tables")
    with load_progress(paths) as progress:
        tables = api.load_tables(paths, progress=progress)
    if statement is None:
        render_catalogue(tables, sys.stdout)
        return
    result = query(tables, statement, QueryLimits(memory_limit, timeout))
    write = _writer(chosen, vertical=vertical)
    if output is None:
        write(result, sys.stdout)
        return
    write_text(output, lambda file: write(result, file), overwrite=force)
    sys.stderr.write(f"Wrote {output}\n")


def _format_of(output: Path | None) -> ResultFormat:
    if output is None:
        return ResultFormat.TABLE
    by_ending = {f".{suffix}": suffix for suffix in (ResultFormat.CSV, ResultFormat.JSON)}
    if output.suffix not in by_ending:
        raise UsageError(
            f"A result cannot be written to {output}: its name chooses no format.",
            hint=f"End it in {' or '.join(by_ending)}, or add --format.",
        )
    return by_ending[output.suffix]


def _writer(format_: ResultFormat, *, vertical: bool) -> "Callable[[pa.Table, IO[str]], None]":
    from hvdprof.report.table_files import render_result, write_csv, write_json

    if format_ is ResultFormat.TABLE:
        return functools.partial(render_result, vertical=vertical)
    return write_csv if format_ is ResultFormat.CSV else write_json
