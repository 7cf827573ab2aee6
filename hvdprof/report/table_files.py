"""Tables as files, and the result of a SQL query as text: CSV, JSON, Parquet."""

import csv
import datetime as dt
import decimal
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.errors import StorageError, UsageError
from hvdprof.model.cached_rows import CachedRows
from hvdprof.model.table_catalogue import TABLES
from hvdprof.plain_text import shortened
from hvdprof.report.format_names import TableFormat
from hvdprof.report.terminal.section_text import (
    natural_width,
    print_blocks,
    print_whole,
    report_console,
)
from hvdprof.rundir.written_file import OVERWRITE_HINT, open_whole

TableRows = pd.DataFrame | CachedRows
"""A table in memory, or one that is kept in a file and goes through memory piece by piece."""

_MOST_ROWS = 1000
_UNBOUNDED = 1_000_000
_LONGEST_TEXTS = (_UNBOUNDED, 60, 40, 30, 20)
"""Characters of a name, tried one after the other until the table fits the terminal."""


def arrow_table(name: str, frame: pd.DataFrame) -> pa.Table:
    """A declared table as an Arrow table; unit and sentence of a column are in its metadata."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return table.cast(_with_docs(name, table.schema))


def _with_docs(name: str, schema: pa.Schema) -> pa.Schema:
    declared = {table.name: table for table in TABLES}.get(name)
    if declared is None:
        return schema
    fields = [
        schema.field(column.name).with_metadata({"unit": column.unit, "doc": column.doc})
        for column in declared.columns
    ]
    return pa.schema(fields, metadata={**(schema.metadata or {})})


def write_table(
    name: str, rows: TableRows, path: Path, format_: TableFormat, *, overwrite: bool = False
) -> None:
    """Write one table into one file.

    Parquet keeps dtypes and holds unit and sentence of each column; JSON is a list of rows with
    ``null`` where a number is missing; CSV leaves such a field empty.

    Raises:
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    with open_whole(path, binary=format_ == TableFormat.PARQUET, overwrite=overwrite) as file:
        _WRITERS[format_](name, rows, file)


def write_all(
    tables: Mapping[str, TableRows], folder: Path, format_: TableFormat, *, overwrite: bool
) -> None:
    """Write every table as ``<name>.<format>`` into a folder, which appears when all are written.

    Raises:
        StorageError: The folder exists and may not be replaced, holds something else than tables,
            or cannot be written.
    """
    old = _replaceable(folder, overwrite=overwrite)
    made = ""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent)
        for name, rows in tables.items():
            write_table(name, rows, Path(made) / f"{name}.{format_}", format_)
        Path(made).chmod(0o755)
        for path in old:
            path.unlink()
        if folder.exists():
            folder.rmdir()
        Path(made).rename(folder)
    except OSError as error:
        raise StorageError(
            f"Could not write {folder}: {error.strerror or error}.",
            hint="Check that the folder is writable and the disk is not full.",
        ) from error
    finally:
        if made:
            shutil.rmtree(made, ignore_errors=True)


def write_object(tables: Mapping[str, TableRows], path: Path, *, overwrite: bool) -> None:
    """Write all tables into one JSON object: a list of rows by the name of the table.

    Raises:
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    with open_whole(path, overwrite=overwrite) as file:
        file.write("{")
        for number, (name, rows) in enumerate(tables.items()):
            file.write(f"{',' if number else ''}\n{json.dumps(name)}: ")
            _json(name, rows, file)
        file.write("\n}\n")


def pick(tables: Mapping[str, TableRows], name: str) -> TableRows:
    """One of some tables.

    Raises:
        UsageError: It is not among them; the hint lists those that are.
    """
    if name not in tables:
        raise UsageError(
            f"There is no table {name!r} with rows here.",
            hint=f"Tables with rows: {', '.join(tables)}.",
        )
    return tables[name]


def _replaceable(folder: Path, *, overwrite: bool) -> list[Path]:
    """The files that make way for new ones."""
    if not folder.exists():
        return []
    if not overwrite:
        raise StorageError(f"{folder} exists and is not overwritten.", hint=OVERWRITE_HINT)
    names = {f"{table.name}.{format_}" for table in TABLES for format_ in TableFormat}
    files = list(folder.iterdir()) if folder.is_dir() else [folder]
    foreign = [path for path in files if path.name not in names or not path.is_file()]
    if foreign:
        raise StorageError(
            f"{folder} holds {foreign[0].name}, which is no table; it is not replaced.",
            hint="Choose another folder.",
        )
    return files


def _parquet(name: str, rows: TableRows, file: IO[Any]) -> None:
    if isinstance(rows, pd.DataFrame):
        pq.write_table(arrow_table(name, rows), file, compression="zstd")
        return
    schema = _with_docs(name, rows.schema)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for piece in rows.pieces():
            writer.write_table(piece.cast(schema))


def _csv(name: str, rows: TableRows, file: IO[Any]) -> None:
    for number, frame in enumerate(_frames(rows)):
        frame.to_csv(file, index=False, header=number == 0, lineterminator="\n")


def _json(name: str, rows: TableRows, file: IO[Any]) -> None:
    file.write("[")
    is_first = True
    for frame in _frames(rows):
        text = frame.to_json(orient="records", force_ascii=False, double_precision=15)
        inside = text[1:-1]
        file.write(inside if is_first or not inside else f",{inside}")
        is_first = is_first and not inside
    file.write("]")


def _frames(rows: TableRows) -> Iterator[pd.DataFrame]:
    if isinstance(rows, pd.DataFrame):
        yield rows
    else:
        yield from rows.frames()


_WRITERS: dict[TableFormat, Callable[[str, TableRows, IO[Any]], None]] = {
    TableFormat.PARQUET: _parquet,
    TableFormat.CSV: _csv,
    TableFormat.JSON: _json,
}


def render_result(result: pa.Table, stream: IO[str], *, vertical: bool = False) -> None:
    """Write at most 1000 rows, with the number of the others.

    Args:
        result: The rows.
        stream: A terminal gets what it has room for: names shortened in the middle, and one line a
            column where even that is too wide. Numbers are never cut, and nothing elsewhere.
        vertical: One block a row, one line a column.
    """
    rows = [
        ["" if value is None else str(value) for value in row]
        for row in _rows(result.slice(0, _MOST_ROWS))
    ]
    console = report_console(stream)
    frames = (_frame(result.schema, rows, longest) for longest in _LONGEST_TEXTS)
    if not vertical and stream.isatty():
        fitting = (frame for frame in frames if natural_width(console, frame) <= console.width)
        frame = next(fitting, None)
    else:
        frame = None if vertical else next(frames)
    if frame is None:
        print_blocks(console, result.column_names, rows)
    else:
        # A number that is cut is a wrong number: others than terminals get the whole lines.
        print_whole(console, frame)
    left = result.num_rows - _MOST_ROWS
    if left > 0:
        console.print(f"... and {units.count(left)} rows more: write them with -o FILE")


def _frame(schema: pa.Schema, rows: Sequence[Sequence[str]], longest: int) -> Table:
    frame = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim")
    lengths = []
    for field in schema:
        is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        justify = "right" if numeric or pa.types.is_decimal(field.type) else "left"
        lengths.append(longest if is_text else _UNBOUNDED)
        frame.add_column(
            Text(field.name),
            justify=justify,  # type: ignore[arg-type]
            no_wrap=True,
            header_style="none",
        )
    for row in rows:
        texts = zip(row, lengths, strict=True)
        frame.add_row(*(Text(shortened(text, length)) for text, length in texts))
    return frame


def write_csv(result: pa.Table, stream: IO[str]) -> None:
    """Write a header and the rows as CSV; an empty field where a value is NULL."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(result.column_names)
    writer.writerows(_rows(result))


def write_json(result: pa.Table, stream: IO[str]) -> None:
    """Write a list of objects, one a row, as strict JSON."""
    rows = [dict(zip(result.column_names, row, strict=True)) for row in _rows(result)]
    json.dump(rows, stream, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    stream.write("\n")


def render_catalogue(tables: Mapping[str, Sized], stream: IO[str]) -> None:
    """Write every declared table that has rows with its columns, then the names of the others."""
    console = report_console(stream)
    for table in TABLES:
        if table.name not in tables:
            continue
        heading = Text(table.name, style="bold cyan")
        heading.append(f"  {units.count(len(tables[table.name]))} rows. ", style="not bold default")
        heading.append(table.doc, style="not bold default")
        console.print(heading)
        frame = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
        for column in table.columns:
            frame.add_row(Text(column.name), Text(column.unit or column.dtype), Text(column.doc))
        console.print(frame)
        console.print()
    empty = [table.name for table in TABLES if table.name not in tables]
    console.print(Text(f"Without rows here: {', '.join(empty)}.", style="dim"))


def _rows(result: pa.Table) -> list[list[object]]:
    columns = [[_plain(value) for value in column.to_pylist()] for column in result.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _plain(value: object) -> object:
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dt.date | dt.time | dt.timedelta | bytes):
        return str(value)
    return value
