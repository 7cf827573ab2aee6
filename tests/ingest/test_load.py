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
