import os
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from hvdprof.ingest.storage.sealed_file import find_sealed, opened, seal, sealed_names


def test_a_sealed_file_has_its_checksum_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "a-k.parquet").write_bytes(b"content")
    sealed = seal(tmp_path / "a-k.parquet")
    assert sealed.name == f"a-k-{zlib.crc32(b'content'):08x}.parquet"
    assert find_sealed(tmp_path, "a-k", sealed) == sealed
    assert sealed_names(tmp_path, "a-k") == [sealed.name]
    assert find_sealed(tmp_path, "a", sealed) is None
    sealed.write_bytes(b"c0ntent")
    assert find_sealed(tmp_path, "a-k", sealed) is None


def test_a_folder_that_is_not_there_holds_none(tmp_path: Path) -> None:
    assert find_sealed(tmp_path / "none", "a", tmp_path) is None


def test_an_open_file_outlives_its_name_of_any_bytes(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    path.write_bytes(b"content")
    file = opened(path)
    path.unlink()
    assert file.read() == b"content"
    with pytest.raises(FileNotFoundError):
        opened(path)
    assert isinstance(file, pa.NativeFile)
