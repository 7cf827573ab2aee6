import io
import json
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hvdprof.errors import StorageError, UsageError
from hvdprof.model.tables.log_tables import FILES, STALLS
from hvdprof.report.format_names import TableFormat
from hvdprof.report.table_files import (
    pick,
    render_result,
    write_all,
    write_object,
    write_table,
)

FRAME = FILES.frame(
    [
        {
            "file": "a",
            "kind": "text",
            "size_bytes": 5,
            "num_lines": None,
            "num_rows": 0,
            "left_out": "",
        },
        {
            "file": "b",
            "kind": "text",
            "size_bytes": 2**60 + 1,
            "num_lines": 7,
            "num_rows": 1,
            "left_out": "",
        },
    ]
)
TABLES = {"files": FRAME, "stalls": STALLS.empty()}

RESULT = pa.table(
    {
        "np": [2, 16],
        "tensor": ["gradient/" + 60 * "a" + "/0.weight", "gradient/" + 60 * "b" + "/1.bias"],
        "time_ns": [123456789012345, 5],
    }
)


def test_parquet_keeps_values_units_and_sentences(tmp_path: Path) -> None:
    path = tmp_path / "files.parquet"
    write_table("files", FRAME, path, TableFormat.PARQUET)
    table = pq.read_table(path)
    assert table.column("size_bytes").to_pylist() == [5, 2**60 + 1]
    assert table.column("num_lines").to_pylist() == [None, 7]
    metadata = table.schema.field("size_bytes").metadata
    assert metadata[b"unit"] == b"bytes"
    assert metadata[b"doc"] == b"Size of the file on disk."


def test_csv_and_json_keep_missing_missing(tmp_path: Path) -> None:
    write_table("files", FRAME, tmp_path / "a.csv", TableFormat.CSV)
    assert (tmp_path / "a.csv").read_text().splitlines()[1] == "a,text,5,,0,"
    write_table("files", FRAME, tmp_path / "a.json", TableFormat.JSON)
    rows = json.loads((tmp_path / "a.json").read_text())
    assert [row["num_lines"] for row in rows] == [None, 7]
    assert rows[1]["size_bytes"] == 2**60 + 1


def test_one_object_of_all_tables(tmp_path: Path) -> None:
    write_object(TABLES, tmp_path / "all.json", overwrite=False)
    content = json.loads((tmp_path / "all.json").read_text())
    assert list(content) == ["files", "stalls"]
    assert len(content["files"]) == 2
    assert content["stalls"] == []


def test_a_folder_is_replaced_only_by_force_and_only_if_it_holds_tables(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_all(TABLES, folder, TableFormat.PARQUET, overwrite=False)
    assert sorted(path.name for path in folder.iterdir()) == ["files.parquet", "stalls.parquet"]
    with pytest.raises(StorageError, match="not overwritten"):
        write_all(TABLES, folder, TableFormat.CSV, overwrite=False)
    write_all({"files": FRAME}, folder, TableFormat.CSV, overwrite=True)
    assert [path.name for path in folder.iterdir()] == ["files.csv"]
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"mine\.txt"):
        write_all(TABLES, folder, TableFormat.CSV, overwrite=True)
    assert (folder / "mine.txt").read_text() == "mine"


def test_nothing_is_left_of_a_folder_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    with pytest.raises(StorageError, match="No space left"):
        write_all(TABLES, tmp_path / "out", TableFormat.CSV, overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_table_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'nope'") as caught:
        pick(TABLES, "nope")
    assert "files" in caught.value.hint


class Terminal(io.StringIO):
    def isatty(self):
        return True


def rendered(monkeypatch, width, result=RESULT, stream=Terminal, **options):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    file = stream()
    render_result(result, file, **options)
    plain = re.sub(r"\x1b\[[\d;]*m", "", file.getvalue())
    return [line.rstrip() for line in plain.splitlines()]


def test_a_terminal_gets_whole_numbers_and_names_without_their_middle(monkeypatch):
    lines = rendered(monkeypatch, 60)
    assert max(map(len, lines)) <= 60
    assert lines[2].startswith(" 2   gradient/aaa")
    assert "…" in lines[2]
    assert lines[2].endswith("a/0.weight   123456789012345")
    assert lines[3].startswith("16 ")


def test_a_table_that_fits_no_terminal_is_one_line_a_column(monkeypatch):
    assert rendered(monkeypatch, 40, RESULT.slice(0, 1))[0] == "  np       2"
    assert rendered(monkeypatch, 40)[-1] == "  time_ns  5"
    assert rendered(monkeypatch, 200, vertical=True)[-1] == "  time_ns  5"


@pytest.mark.parametrize("width", [30, 200])
def test_elsewhere_nothing_is_shortened(monkeypatch, width):
    lines = rendered(monkeypatch, width, stream=io.StringIO)
    assert lines[2].split() == ["2", RESULT["tensor"][0].as_py(), "123456789012345"]
