import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvdprof.ingest.storage import sealed_file
from hvdprof.ingest.storage.parquet_cache import FOLDER, cached_frames
from hvdprof.model.schema import Column, Table
from tests.builders.examples import examples

TABLE = Table(
    "numbers",
    "One number.",
    (
        Column("value", "int64", "The number.", "ns"),
        Column("name", "category", "Its name."),
        Column("size", "Int64", "May be missing.", "bytes"),
        Column("text", "str", "A text."),
        Column("share", "float64", "May be NaN.", "ratio"),
        Column("flag", "bool", "Yes or no."),
    ),
)
OTHER = Table("others", "Another.", (Column("value", "int64", "The number."),))


def frame(value: int = 1) -> pd.DataFrame:
    return TABLE.frame(
        {
            "value": [value, 2],
            "name": ["a", "a"],
            "size": [None, 3],
            "text": ["x", ""],
            "share": [float("nan"), 0.5],
            "flag": [True, False],
        }
    )


def cached(table: Table, source: Path, build: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    return cached_frames((table,), (source,), lambda: {table.name: build()})[table.name]


class Builder:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> pd.DataFrame:
        self.calls += 1
        return frame(self.calls)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(tmp_path / "user"))
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "file.json"
    path.write_text("[]")
    return path


def test_the_second_time_nothing_is_built_and_the_frame_is_the_same(source: Path) -> None:
    build = Builder()
    first, second = cached(TABLE, source, build), cached(TABLE, source, build)
    assert build.calls == 1
    pd.testing.assert_frame_equal(first, second)
    pd.testing.assert_frame_equal(second, frame(1))
    assert len(list((source.parent / FOLDER).iterdir())) == 1


def test_an_empty_table_is_cached_too(source: Path) -> None:
    cached(TABLE, source, TABLE.empty)
    found = cached(TABLE, source, Builder())
    pd.testing.assert_frame_equal(found, TABLE.empty(), check_categorical=False)


def test_a_changed_file_is_read_again_and_the_old_cache_goes(source: Path) -> None:
    build = Builder()
    cached(TABLE, source, build)
    source.write_text("[ ]")
    assert cached(TABLE, source, build)["value"][0] == 2
    os.utime(source, ns=(1, 1))
    assert cached(TABLE, source, build)["value"][0] == 3
    assert len(list((source.parent / FOLDER).iterdir())) == 1


def test_another_version_or_other_columns_do_not_use_it(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Builder()
    cached(TABLE, source, build)
    narrower = Table(TABLE.name, TABLE.doc, TABLE.columns[:2])
    assert list(cached(narrower, source, lambda: frame()[["value", "name"]])) == ["value", "name"]
    monkeypatch.setattr(sealed_file, "__version__", "0.0.0")
    cached(TABLE, source, build)
    assert build.calls == 2


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"not parquet"])
def test_a_damaged_cache_is_made_anew(source: Path, damage: bytes) -> None:
    build = Builder()
    cached(TABLE, source, build)
    (file,) = (source.parent / FOLDER).iterdir()
    file.write_bytes(damage)
    assert cached(TABLE, source, build)["value"][0] == 2
    assert cached(TABLE, source, build)["value"][0] == 2


@pytest.mark.heavy
def test_a_cache_cut_anywhere_is_made_anew(source: Path) -> None:
    cached(TABLE, source, Builder())
    (file,) = (source.parent / FOLDER).iterdir()
    whole = file.read_bytes()
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        build = Builder()
        cached(TABLE, source, build)
        assert build.calls == 1, length


def test_where_the_folder_cannot_be_made_the_cache_of_the_user_is_used(source: Path) -> None:
    (source.parent / FOLDER).write_text("a file stands in the way")
    build = Builder()
    cached(TABLE, source, build)
    cached(TABLE, source, build)
    assert build.calls == 1
    assert list((source.parent.parent / "user" / "tables").iterdir())


def test_without_any_place_for_it_the_table_is_built(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source.parent / FOLDER).write_text("a file stands in the way")
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(source))
    build = Builder()
    cached(TABLE, source, build)
    pd.testing.assert_frame_equal(cached(TABLE, source, build), frame(2))


def test_tables_built_together_are_cached_together(source: Path) -> None:
    second = source.with_name("second")
    second.write_text("")
    calls = []

    def build() -> dict[str, pd.DataFrame]:
        calls.append(1)
        return {"numbers": frame(), "others": OTHER.frame({"value": [len(calls)]})}

    for _ in range(2):
        assert cached_frames((TABLE, OTHER), (source, second), build)["others"]["value"][0] == 1
    second.write_text("changed")
    assert cached_frames((TABLE, OTHER), (source, second), build)["others"]["value"][0] == 2


def test_what_is_not_as_declared_is_refused(source: Path) -> None:
    with pytest.raises(ValueError, match="missing columns"):
        cached(TABLE, source, lambda: pd.DataFrame({"value": [1]}))
    assert list((source.parent / FOLDER).iterdir()) == []


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cached(TABLE, tmp_path / "none", Builder())


def test_other_content_of_the_same_size_and_time_is_read_again(source: Path) -> None:
    source.write_bytes(b"x" * 3_000_000)
    status = source.stat()
    build = Builder()
    cached(TABLE, source, build)
    # As ``rsync -t`` and ``cp -p`` leave it; the changed byte lies between the samples.
    with source.open("r+b") as file:
        file.seek(1_000_001)
        file.write(b"y")
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert source.stat().st_mtime_ns == status.st_mtime_ns
    cached(TABLE, source, build)
    assert build.calls == 2


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(place=st.floats(0, 1), change=st.integers(1, 255))
def test_one_byte_that_rots_anywhere_in_the_cache_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, place: float, change: int
) -> None:
    source = tmp_path_factory.mktemp("data") / "file.json"
    source.write_text("[]")
    cached(TABLE, source, frame)
    (file,) = (source.parent / FOLDER).iterdir()
    content = bytearray(file.read_bytes())
    content[int(place * (len(content) - 1))] ^= change
    file.write_bytes(content)
    pd.testing.assert_frame_equal(cached(TABLE, source, frame), frame())


def test_nothing_is_written_through_a_link(source: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (source.parent / FOLDER).symlink_to(elsewhere)
    build = Builder()
    cached(TABLE, source, build)
    cached(TABLE, source, build)
    assert build.calls == 1
    assert list(elsewhere.iterdir()) == []


def test_a_file_that_others_may_write_to_is_not_used(source: Path) -> None:
    build = Builder()
    cached(TABLE, source, build)
    (file,) = (source.parent / FOLDER).iterdir()
    assert file.stat().st_mode & 0o022 == 0
    file.chmod(0o666)
    cached(TABLE, source, build)
    assert build.calls == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_used_only_beside_a_source_of_the_same(source: Path) -> None:
    build = Builder()
    cached(TABLE, source, build)
    (file,) = (source.parent / FOLDER).iterdir()
    os.chown(file, 12345, -1)
    cached(TABLE, source, build)
    assert build.calls == 2
    os.chown(source, 12345, -1)
    cached(TABLE, source, build)
    (file,) = (source.parent / FOLDER).iterdir()
    os.chown(file, 12345, -1)
    cached(TABLE, source, build)
    assert build.calls == 3
