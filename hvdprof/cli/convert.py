"""`hvdprof convert`: the tables of a run or of any files as Parquet, CSV or JSON."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.measuring.chosen_run import chosen_paths
from hvdprof.cli.progress.load_progress import load_progress
from hvdprof.errors import UsageError
from hvdprof.report.format_names import TableFormat


def convert(
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder for all tables, or a file .parquet, .csv or .json.",
            show_default=False,
        ),
    ],
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Run directory, or files and folders of files; the newest run in ./runs when not "
            "given.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", help="Only this table, into one file.", show_default=False),
    ] = None,
    format_: Annotated[
        TableFormat | None,
        format_option(tuple(TableFormat), "Format of the files in a folder; parquet by default."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Write the tables of a run, or of timelines and logs, for other programs.

    A folder gets one file per table; a .json file holds all tables in one object; a .parquet or
    .csv file holds the table that --table names.
    """
    from hvdprof.report.table_files import pick, write_all, write_object, write_table

    by_ending = {f".{suffix}": suffix for suffix in TableFormat}
    chosen = format_ or by_ending.get(output.suffix)
    if table is not None and chosen is None:
        raise UsageError(
            f"One table cannot be written to {output}: its name chooses no format.",
            hint=f"End it in {', '.join(by_ending)}, or add --format.",
        )
    paths = chosen_paths(paths, f"hvdprof convert RUN -o {shlex.quote(str(output))}")
    with load_progress(paths) as progress:
        tables = api.load_tables(paths, progress=progress)
    if table is not None and chosen is not None:
        write_table(table, pick(tables, table), output, chosen, overwrite=force)
    elif output.suffix not in by_ending:
        write_all(tables, output, chosen or TableFormat.PARQUET, overwrite=force)
    elif chosen == TableFormat.JSON:
        write_object(tables, output, overwrite=force)
    else:
        raise UsageError(
            f"A {output.suffix} file holds one table: name it with --table, or give a folder.",
            hint=f"Tables with rows: {', '.join(tables)}.",
        )
    sys.stderr.write(f"Wrote {output}\n")
