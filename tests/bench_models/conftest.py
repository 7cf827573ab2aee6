from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.small_disk import small_disk


@pytest.fixture(name="small_disk")
def a_small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    with small_disk(tmp_path / "small-disk", "64k") as folder:
        yield folder
