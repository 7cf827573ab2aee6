import os
from pathlib import Path

import pytest

from dashboards.run_store import RunStore
from hvdprof.errors import UnreadableInputError, UsageError
from tests.builders.finished_analysis import analysis


class CountingRead:
    def __init__(self):
        self.folders = []

    def __call__(self, folder):
        self.folders.append(folder.name)
        return analysis()


def run_folder(parent, name):
    folder = parent / name
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return folder


def test_ids_are_folder_names_and_twins_are_numbered(tmp_path):
    folders = [run_folder(tmp_path / parent, "quick") for parent in ("a", "b")]
    other = run_folder(tmp_path, "full")
    assert RunStore([*folders, other, folders[0]]).ids == ["quick", "quick (2)", "full"]


def test_an_unchanged_run_is_read_once(tmp_path):
    read = CountingRead()
    runs = RunStore([run_folder(tmp_path, "quick")], read=read)
    assert runs.analysis("quick") is runs.analysis("quick")
    assert read.folders == ["quick"]


def test_a_run_that_goes_on_is_read_again(tmp_path):
    read = CountingRead()
    folder = run_folder(tmp_path, "quick")
    runs = RunStore([folder], read=read)
    runs.analysis("quick")
    recording = folder / "rank-0.jsonl"
    recording.write_text("{}")
    os.utime(recording, ns=(2**62, 2**62))
    runs.analysis("quick")
    assert read.folders == ["quick", "quick"]


def test_only_the_latest_runs_are_kept(tmp_path):
    read = CountingRead()
    names = [f"run{number}" for number in range(9)]
    runs = RunStore([run_folder(tmp_path, name) for name in names], read=read)
    for name in [*names, "run8", "run0"]:
        runs.analysis(name)
    assert read.folders == [*names, "run0"]


@pytest.mark.parametrize("asked", ["other", "../quick", "/etc", ""])
def test_only_ids_are_answered(tmp_path, asked):
    read = CountingRead()
    runs = RunStore([run_folder(tmp_path, "quick")], read=read)
    with pytest.raises(UsageError, match="There is no run"):
        runs.analysis(asked)
    assert not read.folders


def test_a_folder_that_is_gone_is_said(tmp_path):
    with pytest.raises(UnreadableInputError, match="Could not read"):
        RunStore([tmp_path / "gone"]).analysis("gone")


def test_what_reading_raises_reaches_the_page(tmp_path):
    folder = run_folder(tmp_path, "quick")
    with pytest.raises(UnreadableInputError, match=r"manifest\.json"):
        RunStore([Path(folder)]).analysis("quick")
