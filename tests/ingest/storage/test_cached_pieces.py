from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.ingest.storage.parquet_cache import FOLDER, cached_pieces
from hvdprof.model.schema import Column, Table

TABLE = Table(
    "numbers",
    "One number.",
    (
        Column("pass_id", "category", "The file."),
        Column("value", "int64", "The number.", "ns"),
    ),
)


def pieces() -> Iterator[pd.DataFrame]:
    for first in (0, 10):
        values = list(range(first, first + 3))
        yield TABLE.frame({"pass_id": ["old name"] * 3, "value": values})


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(tmp_path / "user"))
    path = tmp_path / "file.json"
    path.write_text("[]")
    return path


def test_the_pieces_are_made_once_and_carry_the_name_of_the_file(source: Path) -> None:
    calls = []

    def counted() -> Iterator[pd.DataFrame]:
        calls.append(1)
        return pieces()

    for _ in range(2):
        table = cached_pieces(TABLE, source, counted)
        assert table is not None
        assert len(table) == 6
        assert table.frame()["value"].tolist() == [0, 1, 2, 10, 11, 12]
        assert set(table.frame()["pass_id"]) == {str(source)}
    assert calls == [1]


def test_without_any_place_for_a_cache_there_is_no_table(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source.parent / FOLDER).write_text("a file stands in the way")
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(source))
    assert cached_pieces(TABLE, source, pieces) is None
