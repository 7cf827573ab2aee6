from pathlib import Path

import pytest

from hvdprof.ingest.text import small_json
from hvdprof.ingest.text.small_json import read_json_mapping


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "report.json").write_text(text)
    return tmp_path / "report.json"


def test_the_object_is_read_and_what_stands_before_it_skipped_where_asked(tmp_path: Path) -> None:
    assert read_json_mapping(written(tmp_path, '{"a": 1}')) == {"a": 1}
    assert read_json_mapping(written(tmp_path, 'OK\n{"a": 1}'), after_head=True) == {"a": 1}


@pytest.mark.parametrize("text", ["", "OK", 'OK\n{"a": 1}', '{"a": ', "[1]", "[" * 100_000])
def test_what_is_no_object_is_one_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json_mapping(written(tmp_path, text))


def test_a_file_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_json, "_MOST_BYTES", 8)
    assert read_json_mapping(written(tmp_path, '{"a": 1}')) == {"a": 1}
    with pytest.raises(ValueError, match="too large"):
        read_json_mapping(written(tmp_path, '{"a": 10}'))
