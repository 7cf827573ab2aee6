import os
import shutil
from pathlib import Path

import pytest

from hvdprof.dashboards.run_store import RunStore
from hvdprof.errors import UnreadableInputError, UsageError
from tests.builders.finished_analysis import analysis
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.timeline_text import timeline_text


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


def test_a_run_in_progress_is_read_again(tmp_path):
    read = CountingRead()
    folder = run_folder(tmp_path, "quick")
    runs = RunStore([folder], read=read, check_every_s=0)
    runs.analysis("quick")
    recording = folder / "rank-0.jsonl"
    recording.write_text("{}")
    os.utime(recording, ns=(2**62, 2**62))
    runs.analysis("quick")
    assert read.folders == ["quick", "quick"]


def test_a_file_that_is_gone_by_now_hides_no_run(tmp_path):
    folder = run_folder(tmp_path, "quick")
    (folder / "rank-0.jsonl").symlink_to(folder / "gone")
    assert RunStore([folder], read=CountingRead()).analysis("quick")


def test_only_the_latest_runs_stay_in_memory(tmp_path):
    read = CountingRead()
    names = [f"run{number}" for number in range(9)]
    runs = RunStore([run_folder(tmp_path, name) for name in names], read=read, check_every_s=0)
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


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(UnreadableInputError, match="Could not read"):
        RunStore([tmp_path / "gone"]).analysis("gone")


def test_what_reading_raises_reaches_the_page(tmp_path):
    folder = run_folder(tmp_path, "quick")
    with pytest.raises(UnreadableInputError, match=r"manifest\.json"):
        RunStore([Path(folder)]).analysis("quick")


def test_a_new_run_in_a_watched_folder_is_offered_and_ids_keep_their_meaning(tmp_path):
    first = write_run(tmp_path / "runs" / "quick", [PassSpec()])
    alone = write_run(tmp_path / "quick", [PassSpec()])
    runs = RunStore([alone], watched=[tmp_path / "runs"], read=CountingRead(), check_every_s=0)
    assert runs.ids == ["quick", "quick (2)"]
    write_run(tmp_path / "runs" / "new", [PassSpec()])
    assert sorted(runs.ids) == ["new", "quick", "quick (2)"]
    shutil.rmtree(first)
    assert sorted(runs.ids) == ["new", "quick"]
    with pytest.raises(UsageError, match="There is no run"):
        runs.analysis("quick (2)")


def test_a_standalone_timeline_has_tables_but_no_analysis(tmp_path):
    file = tmp_path / "timeline.json"
    file.write_text(timeline_text(SegmentSpec(timeline=True), 2, 0))
    runs = RunStore([file])
    assert runs.ids == ["timeline.json"]
    assert len(runs.table("timeline.json", "events")) == len(runs.run("timeline.json").events) > 0
    assert runs.table("timeline.json", "collectives").columns.size
    assert runs.table("timeline.json", "scaling").empty
    with pytest.raises(UnreadableInputError, match="standalone file"):
        runs.analysis("timeline.json")


def test_what_is_made_of_a_run_is_made_once_bounded_and_anew_after_a_change(tmp_path):
    folder = run_folder(tmp_path, "quick")
    runs = RunStore([folder], read=CountingRead(), check_every_s=0)
    made = []

    def make(key):
        return runs.made("quick", key, lambda: made.append(key) or key)

    for key in "aabcdefghia":
        assert make(key) == key
    assert made == list("abcdefghia")
    os.utime(folder / "manifest.json", ns=(2**62, 2**62))
    make("a")
    assert made[-1] == "a"
    assert len(made) == 11
