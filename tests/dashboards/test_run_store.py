import importlib
import json
import os
import shutil
import time
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from hvdprof.dashboards import run_store
from hvdprof.dashboards.app import PAGES, TABS
from hvdprof.dashboards.navigation import lacks_of
from hvdprof.dashboards.run_rows import rows_of
from hvdprof.dashboards.run_store import RunStore, read_and_analyze
from hvdprof.dashboards.shell import content
from hvdprof.dashboards.view import View
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.run_lock import exclusive_run
from tests.builders.finished_analysis import analysis
from tests.builders.recorded_runs import unpacked
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.timeline_text import timeline_text

to_json = importlib.import_module("plotly.io.json").to_json_plotly


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


def test_runs_are_analyzed_at_the_price_that_is_given(tmp_path):
    folder = unpacked("horovod-slow-data", tmp_path)
    assert read_and_analyze(folder).verdict.loss_cost is None
    assert read_and_analyze(folder, 2.5).verdict.loss_cost.per_hour == 5.0


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


def test_runs_of_one_name_have_their_folders_in_their_names(tmp_path):
    for place in ("quick", "a/quick", "b/quick", ".trash/old"):
        run_folder(tmp_path, place)
        write_run(tmp_path / place, [PassSpec()])
    runs = RunStore([], watched=[tmp_path], check_every_s=0)
    assert sorted(runs.ids) == ["a/quick", "b/quick", "quick"]
    assert runs.left_out == {"hidden folders": 1}
    assert runs.path("a/quick") == tmp_path / "a" / "quick"
    assert runs.move_to_trash("a/quick") == tmp_path / "a" / ".trash" / "quick"


@pytest.mark.heavy
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


@pytest.mark.heavy
def test_a_name_that_is_not_utf8_takes_no_other_run_away(tmp_path):
    odd = os.fsdecode(b"caf\xe9")
    for name in ("good", odd):
        write_run(tmp_path / name, [PassSpec()])
    run_folder(tmp_path, f"{odd}-damaged")
    runs = RunStore([], watched=[tmp_path])
    assert sorted(runs.ids) == ["caf\\xe9", "caf\\xe9-damaged", "good"]
    rows = rows_of(runs)
    json.dumps(rows, ensure_ascii=False).encode()
    assert sorted(parse_qs(row["href"].partition("?")[2])["run"][0] for row in rows) == sorted(
        runs.ids
    )
    for page in PAGES:
        shown = content(page, runs, View(page.PATH, {"run": "caf\\xe9"}))
        to_json(shown).encode()
        assert "could not be drawn" not in str(shown)


def test_one_row_that_fails_takes_no_other_away(tmp_path, monkeypatch):
    for name in ("good", "bad"):
        write_run(tmp_path / name, [PassSpec()])
    runs, entry = RunStore([], watched=[tmp_path]), RunStore.entry

    def broken(self, run_id):
        if run_id == "bad":
            raise RuntimeError("a bug")
        return entry(self, run_id)

    monkeypatch.setattr(RunStore, "entry", broken)
    status_of = {row["name"]: row["verdict"] for row in rows_of(runs)}
    assert status_of["good"].startswith("done")
    assert status_of["bad"].startswith("not shown: RuntimeError")


def test_a_manifest_is_read_once_until_it_changes(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", [PassSpec()])
    read, seen = Manifest.read, []

    def counted(folder):
        seen.append(folder)
        return read(folder)

    monkeypatch.setattr(Manifest, "read", counted)
    runs = RunStore([], watched=[tmp_path], check_every_s=0)
    for _ in range(3):
        assert rows_of(runs)[0]["verdict"].startswith("done")
    assert len(seen) == 1
    manifest = read(folder)
    manifest.status = "failed"
    manifest.write(RunPaths(folder))
    assert rows_of(runs)[0]["verdict"] == "failed"
    assert len(seen) == 2


def test_a_watched_folder_offers_its_latest_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(run_store, "MOST_LISTED", 2)
    for number in range(3):
        manifest = write_run(tmp_path / f"run{number}", [PassSpec()]) / "manifest.json"
        os.utime(manifest, (1e9 + number, 1e9 + number))
    assert sorted(RunStore([], watched=[tmp_path]).ids) == ["run1", "run2"]


@pytest.mark.heavy
def test_a_killed_run_is_read_again_and_can_be_deleted(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    runs = RunStore([], watched=[tmp_path], check_every_s=0)
    with exclusive_run(folder) as writer:
        write_run(folder, [PassSpec(status="running")], status="running", writer=writer)
        assert runs.analysis("run").run.manifest.status == "running"
        assert rows_of(runs)[0]["verdict"] == "running: 0 of 1 passes"
        assert runs.was_analyzed("run")
        with pytest.raises(UsageError, match="being measured"):
            runs.move_to_trash("run")
    # What was seen of it while it ran is not its verdict.
    assert not runs.was_analyzed("run")
    assert runs.analysis("run").run.manifest.status == "interrupted"
    assert rows_of(runs)[0]["verdict"].startswith("interrupted: 0 of 1 passes")
    assert runs.move_to_trash("run").exists()


@pytest.mark.heavy
def test_a_run_that_is_measured_rests_between_readings(tmp_path):
    def read(path):
        readings.append(path)
        time.sleep(0.5)
        return read_and_analyze(path)

    readings, folder = [], tmp_path / "run"
    folder.mkdir()
    runs = RunStore([folder], read=read, check_every_s=0)
    with exclusive_run(folder) as writer:
        write_run(folder, [PassSpec(status="running")], status="running", writer=writer)
        runs.finished("run")
        (folder / "events.jsonl").write_text("{}")
        # Else the navigation alone read it once for each table that it asks for.
        assert lacks_of(TABS, runs, "run") == {}
        runs.table("run", "steps")
        assert len(readings) == 1
    runs.table("run", "steps")
    assert len(readings) == 2
    assert "/nccl" in lacks_of(TABS, runs, "run")


@pytest.mark.heavy
def test_links_in_a_circle_hide_no_run(tmp_path):
    folder = write_run(tmp_path / "run", [PassSpec()])
    (folder / "loop").symlink_to("loop")
    assert RunStore([folder]).analysis("run")
