import shutil
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.load import is_run_directory, load_run
from tests.builders.places import RECORDINGS
from tests.builders.run_directory import PassSpec, write_run


def test_a_folder_with_a_manifest_is_loaded_as_a_run_directory(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [PassSpec(size=2)])
    assert is_run_directory(folder)
    assert load_run([folder]).recorded


def test_other_paths_are_loaded_as_files(tmp_path: Path) -> None:
    shutil.copy(RECORDINGS / "11_dynamic_a.json", tmp_path)
    assert not is_run_directory(tmp_path)
    run = load_run([tmp_path])
    assert not run.recorded
    assert len(run.events)


def test_no_path_is_an_error() -> None:
    with pytest.raises(UnreadableInputError, match="No file was named"):
        load_run([])


def test_a_path_that_cannot_be_looked_at_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    with pytest.raises(UnreadableInputError, match="cannot be read: File name too long"):
        is_run_directory(path)
    for paths in ([path], [path, tmp_path]):
        with pytest.raises(UnreadableInputError, match="cannot be read: File name too long"):
            load_run(paths)
