from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hvdprof.errors import StorageError
from hvdprof.ingest.timeline.plain_road import parse_plain

pytest.importorskip("numba", reason="the way to Parquet is compiled")

from hvdprof.ingest.timeline.to_parquet import slices_to_parquet

RECORDING = Path(__file__).parent.parent / "recordings" / "07_mpi_fp16.json"


def test_the_slices_are_those_of_the_plain_road(tmp_path: Path) -> None:
    target = tmp_path / "slices.parquet"
    told = slices_to_parquet(RECORDING, target)
    whole = parse_plain(RECORDING.read_bytes())
    frame = pq.read_table(target).to_pandas()
    assert told.num_records == whole.num_records
    for column in ("pid", "start_us", "dur_us", "depth", "begin_order", "end_order"):
        assert np.array_equal(frame[column], getattr(whole.slices, column)), column
    assert frame["name"].tolist() == [whole.names[code] for code in whole.slices.name]
    args = [whole.args[code] if code >= 0 else None for code in whole.slices.args]
    assert [None if value != value else value for value in frame["args"]] == args


def test_a_target_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file stands in the way")
    with pytest.raises(StorageError):
        slices_to_parquet(RECORDING, tmp_path / "folder" / "slices.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_file_that_is_missing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        slices_to_parquet(tmp_path / "none.json", tmp_path / "slices.parquet")
    assert not list(tmp_path.iterdir())
