"""Declared tables as files: Parquet, CSV or JSON; whole or not at all."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hvdprof.errors import StorageError, UsageError
from hvdprof.model.cached_rows import CachedRows
from hvdprof.model.table_catalogue import TABLES
from hvdprof.report.format_names import TableFormat
from hvdprof.rundir.written_file import OVERWRITE_HINT, open_whole

TableRows = pd.DataFrame | CachedRows
"""A table in memory, or one that is kept in a file and goes through memory piece by piece."""


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
