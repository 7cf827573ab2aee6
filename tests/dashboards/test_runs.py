import pytest

from hvdprof.dashboards import pages, run_store
from hvdprof.dashboards.app import PAGES
from hvdprof.dashboards.guard import row_names
from hvdprof.dashboards.pages.runs import layout, rows_of
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.shell import RUNS_PATH, start_page
from hvdprof.dashboards.trash import TRASH
from hvdprof.dashboards.view import View
from hvdprof.errors import UsageError
from tests.builders.analysis import with_a_straggler
from tests.builders.run_directory import PassSpec, write_run
from tests.builders.served_dashboard import empty_run, shown_text, standalone_timeline


@pytest.mark.heavy
def test_a_row_holds_what_the_manifest_says_and_the_verdict_once_it_is_known(tmp_path):
    write_run(tmp_path / "one", with_a_straggler())
    runs = RunStore([tmp_path / "one"])
    (row,) = rows_of(runs)
    assert (row["what"], row["np"], row["status"]) == ("mnist", "1, 2", "done")
    assert (row["efficiency"], row["cause"]) == (None, "")
    verdict = runs.analysis("one").verdict
    (row,) = rows_of(runs)
    assert row["efficiency"] == verdict.efficiency
    assert row["cause"] == "straggler: rank 1, forward phase, 23 %"


def test_progress_files_and_damaged_runs_are_rows(tmp_path):
    passes = [PassSpec(), PassSpec(status="planned", repeat=2)]
    write_run(tmp_path / "half", passes, status="running")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "manifest.json").write_text("{")
    paths = [tmp_path / "half", tmp_path / "bad", standalone_timeline(tmp_path)]
    rows = rows_of(RunStore(paths))
    assert rows[0]["status"] == "running: 1 of 2 passes"
    assert "manifest.json" in rows[1]["status"]
    assert rows[2]["what"] == "standalone file"


def test_the_page_says_how_many_older_runs_it_leaves_out(tmp_path, monkeypatch):
    for module in (run_store, pages.runs):
        monkeypatch.setattr(module, "MOST_LISTED", 2)
    runs = RunStore([], watched=[tmp_path], check_every_s=0)
    for number in range(5):
        write_run(tmp_path / f"run{number}", [PassSpec()])
        text = shown_text(layout(runs, View("/runs", {})))
        assert ("older runs: " in text) == (number >= 2)
    assert "older runs: 3; of a folder, the latest 2 are listed" in text


def test_a_deleted_run_is_in_the_trash_folder_and_no_name_is_overwritten(tmp_path):
    for _ in range(2):
        write_run(tmp_path / "one", [PassSpec()])
        runs = RunStore([], watched=[tmp_path])
        runs.move_to_trash("one")
        assert runs.ids == []
    assert sorted(one.name for one in (tmp_path / TRASH).iterdir()) == ["one", "one (2)"]


def test_what_is_measured_or_no_run_stays(tmp_path):
    runs = RunStore([empty_run(tmp_path / "none"), standalone_timeline(tmp_path)])
    with pytest.raises(UsageError, match="is being measured"):
        runs.move_to_trash("none")
    with pytest.raises(UsageError, match="standalone file"):
        runs.move_to_trash("timeline.json")
    with pytest.raises(UsageError, match="There is no run"):
        runs.move_to_trash("../none")
    assert (tmp_path / "none" / "manifest.json").exists()


def test_the_list_is_the_start_where_there_are_several_runs(tmp_path):
    one = RunStore([write_run(tmp_path / "one", [PassSpec()])])
    two = RunStore([tmp_path / "one", write_run(tmp_path / "two", [PassSpec()])])
    assert start_page(PAGES, one, "/", "").PATH == "/"
    assert start_page(PAGES, two, "/", "").PATH == RUNS_PATH
    assert start_page(PAGES, two, "/", "?run=two").PATH == "/"
    assert start_page(PAGES, two, "/ranks", "").PATH == "/ranks"
    # An old address.
    assert start_page(PAGES, two, "/breakdown", "").PATH == "/ranks"


@pytest.mark.parametrize("value", ["x", [1], [{"id": 1}], [{}]])
def test_malformed_selections_are_refused(value):
    from werkzeug.exceptions import BadRequest

    with pytest.raises(BadRequest):
        row_names(value)


def test_long_texts_of_the_list_wrap_instead_of_being_cut(tmp_path):
    write_run(tmp_path / "one", [PassSpec()])
    page = shown_text(layout(RunStore([tmp_path / "one"]), View("/runs", {})))
    assert page.count('"wrapText": true') == page.count('"autoHeight": true') == 7
    assert '"tooltipField": "efficiency_text"' in page
