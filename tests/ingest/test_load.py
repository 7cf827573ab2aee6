import gzip
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


def test_a_folder_with_one_run_directory_stands_for_it_and_files_beside_it_are_noted(
    tmp_path: Path,
) -> None:
    write_run(tmp_path / "jobs" / "a" / "run", [PassSpec(size=2)])
    shutil.copy(RECORDINGS / "11_dynamic_a.json", tmp_path / "jobs")
    archive = shutil.make_archive(str(tmp_path / "jobs"), "gztar", tmp_path, "jobs")
    for path in (tmp_path / "jobs", Path(archive)):
        run = load_run([path])
        assert run.recorded
        (note,) = run.notes[-1:]
        assert "1 file beside the run directory" in note.text
    write_run(tmp_path / "jobs" / "two", [PassSpec()])
    with pytest.raises(UnreadableInputError, match="read alone") as caught:
        load_run([tmp_path / "jobs"])
    assert "jobs/a/run" in caught.value.hint
    assert "jobs/two" in caught.value.hint


@pytest.mark.parametrize("length", [15, 60])
def test_a_compressed_file_that_ends_before_anything_known_is_no_timeline(
    tmp_path: Path, length: int
) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress((RECORDINGS / "11_dynamic_a.json").read_bytes())[:length])
    with pytest.raises(UnreadableInputError) as caught:
        load_run([path])
    assert caught.value.message == f"{path}: the gzip data ends early, before anything known."
    assert caught.value.hint == "Copy the whole file, and read it again."
