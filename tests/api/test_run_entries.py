import os

import pytest

from hvdprof.api import list_runs, run_entries
from hvdprof.api.run_entries import runs_below
from hvdprof.errors import UnreadableInputError
from tests.builders.run_directory import PassSpec, write_run


def names(folder, levels=run_entries.MOST_LEVELS):
    return [str(one.relative_to(folder)) for one in runs_below(folder, levels).folders]


def test_runs_are_found_four_levels_down_and_other_files_do_not_hide_them(tmp_path):
    for place in ("a", "x/b", "x/y/z/c", "x/y/z/w/too-deep", ".trash/gone"):
        write_run(tmp_path / place, [PassSpec()])
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "x" / "timeline.json").write_text("[]")
    assert names(tmp_path) == ["a", "x/b", "x/y/z/c"]
    assert names(tmp_path, 1) == ["a"]
    assert dict(runs_below(tmp_path).skipped) == {
        "files that are no run": 2,
        "hidden folders": 1,
        "folders 4 levels down, not opened": 1,
    }
    assert len(list_runs(tmp_path)) == 3
    assert len(list_runs(tmp_path, levels=1)) == 1


def test_deep_down_a_manifest_of_another_program_is_no_run(tmp_path):
    for place in ("damaged", "web/app"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "manifest.json").write_text('{"icons": []}')
    write_run(tmp_path / "web" / "app" / "run", [PassSpec()])
    assert names(tmp_path) == ["damaged", "web/app/run"]


def test_links_lead_to_runs_once_and_never_in_a_circle(tmp_path):
    elsewhere = write_run(tmp_path / "elsewhere" / "far", [PassSpec()]).parent
    folder = tmp_path / "runs"
    write_run(folder / "deep" / "near", [PassSpec()])
    (folder / "again").symlink_to(folder / "deep" / "near")
    (folder / "deep" / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    (folder / "other").symlink_to(elsewhere)
    found = runs_below(folder)
    assert sorted(one.resolve().name for one in found.folders) == ["far", "near"]
    assert found.skipped["links to a folder above them or searched already"] == 3


def test_a_folder_of_very_many_files_is_searched_and_the_search_ends(tmp_path, monkeypatch):
    write_run(tmp_path / "z" / "run", [PassSpec()])
    for number in range(300):
        (tmp_path / f"{number}.txt").touch()
    assert names(tmp_path) == ["z/run"]
    monkeypatch.setattr(run_entries, "_MOST_NAMES", 100)
    found = runs_below(tmp_path)
    assert found.folders == []
    assert [reason for reason in found.skipped if reason.startswith("folders beyond")]
    monkeypatch.setattr(run_entries, "_MOST_NAMES", 1_000)
    monkeypatch.setattr(run_entries, "_MOST_FOLDERS", 1)
    assert runs_below(tmp_path).folders == []


def test_a_folder_that_cannot_be_read_is_counted(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refused(path):
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    assert runs_below(tmp_path).skipped == {"folders that cannot be read": 1}


def test_a_file_is_no_folder_of_runs(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableInputError, match="is not a folder") as caught:
        runs_below(tmp_path / "file")
    assert caught.value.hint == "Give the folder in which the run directories lie."
    with pytest.raises(UnreadableInputError, match="There is no folder"):
        runs_below(tmp_path / "gone")
