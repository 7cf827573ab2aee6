import shutil
from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.ingest.storage import parquet_cache
from hvdprof.ingest.storage.cached_table import CachedTable
from hvdprof.report.answers.files import files_json
from tests.builders.places import RECORDINGS

pytestmark = pytest.mark.slow


def never_read(self: CachedTable) -> None:
    raise AssertionError(f"{self.table.name} was read as a whole")


def test_rows_are_counted_without_reading_a_large_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hvdprof.ingest.timeline.stream", reason="it is compiled")
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(tmp_path / "user"))
    path = tmp_path / "04.json"
    shutil.copy(RECORDINGS / "04_gloo_straggler_rank1_cache_off.json", path)
    plain = load_run(path).row_counts
    monkeypatch.setattr(parquet_cache, "CACHE_FROM_BYTES", 0)
    from_cache = analyze_files(load_run(path))
    monkeypatch.setattr(CachedTable, "frame", never_read)

    assert from_cache.run.cached[str(path)].keys() >= {"events", "tensor_uses", "executions"}
    assert from_cache.run.row_counts == plain == files_json(from_cache)["row_counts"]
    assert plain["events"] > 100
    assert list(plain) == list(from_cache.run.row_counts)
