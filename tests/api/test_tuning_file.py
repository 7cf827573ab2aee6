"""The result of a tuning in its folder."""

import json
import math
from pathlib import Path

import pytest

from hvdprof.api import load_tuning
from hvdprof.api.tuning_file import check_folder, write_tuning
from hvdprof.errors import StorageError, UnreadableInputError
from tests.builders.finished_tuning import tuning


def test_a_result_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    write_tuning(tuning(), tmp_path)
    found = load_tuning(tmp_path)
    open_ended = found.trials[1].gain
    assert open_ended is not None and math.isnan(open_ended.low)
    assert found.sentence == tuning().sentence
    assert found.checks == tuning().checks
    assert found.trials[0] == tuning().trials[0]
    assert found.trials[2:] == tuning().trials[2:]
    assert json.loads((tmp_path / "tuning.json").read_text())["schema_version"] == 1


@pytest.mark.parametrize(("of_runs", "mode"), [(0o700, 0o600), (0o750, 0o640)])
def test_who_may_read_its_runs_may_read_the_result(tmp_path: Path, of_runs: int, mode: int) -> None:
    (tmp_path / "present").mkdir()
    (tmp_path / "present").chmod(of_runs)
    write_tuning(tuning(), tmp_path)
    assert (tmp_path / "tuning.json").stat().st_mode & 0o777 == mode


def test_a_folder_without_a_result_says_where_its_runs_are(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="holds no result of a tuning") as error:
        load_tuning(tmp_path)
    assert "present, race and check" in error.value.hint


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"schema_version": 2}', '{"schema_version": 1}']
)
def test_a_damaged_result_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tuning.json").write_text(text)
    with pytest.raises(UnreadableInputError, match="is damaged"):
        load_tuning(tmp_path)


def test_a_file_or_a_used_folder_cannot_hold_a_new_tuning(tmp_path: Path) -> None:
    check_folder(tmp_path / "new")
    check_folder(tmp_path)
    file = tmp_path / "file"
    file.write_text("x")
    for path, message in ((file, "cannot hold a tuning"), (tmp_path, "is not empty")):
        with pytest.raises(StorageError, match=message) as error:
            check_folder(path)
        assert "--runs" in error.value.hint
