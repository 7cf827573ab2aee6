from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hvdprof.ingest.storage import cached_table
from hvdprof.ingest.storage.blocks import schema_of
from hvdprof.ingest.storage.mapped_frame import can_be_mapped, mapped_frame, release_pages
from hvdprof.ingest.storage.parquet_cache import FOLDER, cached_pieces
from hvdprof.model.schema import Column, Table

TABLE = Table(
    "numbers",
    "One number.",
    (
        Column("pass_id", "category", "The file."),
        Column("tensor", "category", "A name of many."),
        Column("rank", "int32", "A small number."),
        Column("start_ns", "int64", "A large number.", "ns"),
        Column("size_bytes", "Int64", "A number that can be missing.", "bytes"),
        Column("share", "float64", "A ratio."),
        Column("warmup", "bool", "A flag."),
    ),
)


def rows(first: int, number: int, names: int) -> pd.DataFrame:
    place = np.arange(first, first + number)
    tensors = [None if one % 7 == 3 else f"layer{one % names}" for one in place]
    return TABLE.frame(
        {
            "pass_id": ["file.json"] * number,
            "tensor": tensors,
            "rank": place.astype(np.int32) - 5,
            "start_ns": place.astype(np.int64) * 10**12,
            "size_bytes": pd.array([None if one % 3 == 0 else int(one) for one in place], "Int64"),
            "share": np.where(place % 5 == 0, np.nan, place / 7),
            "warmup": place % 2 == 0,
        }
    )


def arrow(frames: list[pd.DataFrame]) -> list[pa.Table]:
    schema = schema_of(TABLE)
    return [pa.Table.from_pandas(one, schema=schema, preserve_index=False) for one in frames]


@pytest.mark.heavy
@pytest.mark.parametrize("names", [5, 200, 40_000], ids=["int8", "int16", "int32"])
def test_it_is_the_frame_of_all_pieces(tmp_path: Path, names: int) -> None:
    # The names outgrow the width of their codes in the second piece.
    frames = [rows(0, 100, names), rows(100, 45_000, names), rows(45_100, 3, names)]
    found = mapped_frame(TABLE, 45_103, arrow(frames), tmp_path)
    expected = pd.concat(frames, ignore_index=True).astype({"pass_id": "str", "tensor": "str"})
    pd.testing.assert_frame_equal(found.astype({"pass_id": "str", "tensor": "str"}), expected)
    assert list(map(str, found.dtypes)) == [column.dtype for column in TABLE.columns]
    assert list(tmp_path.iterdir()) == []


def test_values_that_are_changed_are_those_of_one_frame_alone(tmp_path: Path) -> None:
    found = mapped_frame(TABLE, 10, arrow([rows(0, 10, 3)]), tmp_path)
    changed = found.assign(rank=1)
    changed.loc[0, "start_ns"] = -1
    assert found["start_ns"].iloc[0] == 0
    assert found["rank"].tolist() == list(range(-5, 5))


@pytest.mark.heavy
def test_released_pages_come_back_when_they_are_used(tmp_path: Path) -> None:
    number = 1_000_000
    found = mapped_frame(TABLE, number, arrow([rows(0, number, 5)]), tmp_path)
    total = int(found["start_ns"].max())
    mapped = _mapped_kb(tmp_path)
    assert mapped > 7_000
    release_pages()
    assert _mapped_kb(tmp_path) < mapped / 4
    assert int(found["start_ns"].max()) == total
    del found
    release_pages()


def _mapped_kb(folder: Path) -> int:
    """Resident kB of the files that are mapped from a folder."""
    found, name = 0, ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line.split()[0].endswith(":"):
            name = line
        elif line.startswith("Rss:") and str(folder) in name:
            found += int(line.split()[1])
    return found


def test_another_number_of_rows_is_an_error(tmp_path: Path) -> None:
    for number in (9, 11):
        with pytest.raises(ValueError, match="rows"):
            mapped_frame(TABLE, number, arrow([rows(0, 10, 3)]), tmp_path)


def test_texts_of_any_length_are_not_mapped() -> None:
    assert can_be_mapped(TABLE)
    assert not can_be_mapped(Table("t", "T.", (Column("line", "str", "A line."),)))


def test_large_cached_tables_are_mapped_and_equal_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(tmp_path / "user"))
    source = tmp_path / "file.json"
    source.write_text("[]")

    def pieces() -> Iterator[pd.DataFrame]:
        yield from (rows(0, 50, 4), rows(50, 50, 300))

    table = cached_pieces(TABLE, source, pieces)
    assert table is not None
    plain = table.frame()
    calls = []
    monkeypatch.setattr(cached_table, "MAPPED_FROM_ROWS", 100)
    monkeypatch.setattr(
        cached_table, "mapped_frame", lambda *given: calls.append(1) or mapped_frame(*given)
    )
    mapped = table.frame()
    assert calls == [1]
    names = {"pass_id": "str", "tensor": "str"}
    pd.testing.assert_frame_equal(mapped.astype(names), plain.astype(names))
    assert set(mapped["pass_id"]) == {str(source)}

    def no_room(*given: object) -> pd.DataFrame:
        raise OSError("No space left on device")

    monkeypatch.setattr(cached_table, "mapped_frame", no_room)
    pd.testing.assert_frame_equal(table.frame(), plain)
    assert all(one.suffix == ".parquet" for one in (tmp_path / FOLDER).iterdir())
