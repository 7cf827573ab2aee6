from datetime import UTC, datetime

import pytest

from hvdprof.dashboards import pages, run_rows, run_store
from hvdprof.dashboards.access import row_names
from hvdprof.dashboards.app import PAGES
from hvdprof.dashboards.glance import MOST_POINTS
from hvdprof.dashboards.pages.runs import layout
from hvdprof.dashboards.run_rows import age_text, rows_of
from hvdprof.dashboards.run_store import RunStore, read_and_analyze
from hvdprof.dashboards.shell import RUNS_PATH, start_page
from hvdprof.dashboards.trash import TRASH
from hvdprof.dashboards.view import View
from hvdprof.errors import UsageError
from hvdprof.report.answers.files import files_answer
from tests.builders.analysis import sweep, with_a_straggler
from tests.builders.browser import show, wait_until, watched_page
from tests.builders.recorded_runs import unpacked
from tests.builders.run_directory import PassSpec, write_run
from tests.builders.served_dashboard import (
    empty_run,
    nccl_file,
    served,
    shown_text,
    standalone_timeline,
)
from tests.builders.written import written


@pytest.mark.heavy
def test_a_row_holds_what_the_manifest_says_and_the_verdict_once_it_is_known(tmp_path):
    write_run(tmp_path / "one", with_a_straggler())
    runs = RunStore([tmp_path / "one"])
    (row,) = rows_of(runs)
    assert (row["what"], row["np"]) == ("mnist", "1, 2")
    assert (row["verdict"], row["tone"]) == ("done, not analyzed yet", "")
    assert "efficiency" not in row
    verdict = runs.analysis("one").verdict
    (row,) = rows_of(runs)
    assert row["efficiency"] == verdict.efficiency
    assert row["bar"] == [verdict.efficiency, verdict.efficiency_low, verdict.efficiency_high]
    assert row["verdict"] == "Rank 1 is too slow in forward."
    assert row["tone"] == "caution"
    assert row["trust"] in ("good", "limited", "low")
    # As many points as a small picture can show, however long the run is.
    assert 2 <= len(row["steps"].split()) <= MOST_POINTS


@pytest.mark.heavy
def test_a_clean_run_has_no_loss_and_a_failed_one_its_reason(tmp_path):
    write_run(tmp_path / "clean", sweep({1: 10.0, 2: 10.1}))
    runs = RunStore([tmp_path / "clean", unpacked("horovod-failed", tmp_path)])
    for run_id in runs.ids:
        runs.analysis(run_id)
    rows = {row["name"]: row for row in rows_of(runs)}
    assert (rows["clean"]["verdict"], rows["clean"]["tone"]) == ("No loss of 5 % or more", "good")
    failed = rows["horovod-failed"]
    assert failed["verdict"] == "failed: rank 1 raised RuntimeError: on purpose"
    assert failed["tone"] == "bad"


@pytest.mark.parametrize(
    ("started", "age"),
    [
        ("2026-11-28T09:59:30+00:00", "just now"),
        ("2026-11-28T09:15:00+00:00", "45 min ago"),
        ("2026-11-28T08:00:00+02:00", "4 h ago"),
        ("2026-11-20T10:00:00+00:00", "8 d ago"),
        ("2026-11-20T10:00:00", ""),
        ("yesterday", ""),
    ],
)
def test_the_age_of_a_run_is_in_one_unit(started, age):
    assert age_text(started, datetime(2026, 11, 28, 10, tzinfo=UTC)) == age


def test_the_newest_run_is_first_in_whatever_order_runs_are_given(tmp_path):
    paths = [
        write_run(tmp_path / name, [PassSpec()], created_at=f"2026-11-{day}T00:00:00+00:00")
        for name, day in (("old", 10), ("new", 12), ("middle", 11))
    ]
    assert [row["name"] for row in rows_of(RunStore(paths))] == ["new", "middle", "old"]


def test_progress_files_and_damaged_runs_are_rows(tmp_path):
    passes = [PassSpec(), PassSpec(status="planned", repeat=2)]
    write_run(tmp_path / "half", passes, status="running")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "manifest.json").write_text("{")
    paths = [tmp_path / "half", tmp_path / "bad", standalone_timeline(tmp_path)]
    rows = {row["name"]: row for row in rows_of(RunStore(paths))}
    assert rows["half"]["verdict"] == "running: 1 of 2 passes"
    assert "manifest.json" in rows["bad"]["verdict"]
    assert rows["bad"]["tone"] == "bad"
    assert rows["timeline.json"]["what"] == "standalone file"


@pytest.mark.heavy
def test_a_small_standalone_file_has_the_verdict_that_analyze_prints(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("nothing that is known\n")
    paths = [standalone_timeline(tmp_path), nccl_file(tmp_path), tmp_path / "notes.txt"]
    runs = RunStore(paths)
    assert {row["verdict"] for row in rows_of(runs)} == {"not analyzed yet"}
    for _ in paths:
        pages.runs._analyze_next(runs)
    rows = {row["name"]: row for row in rows_of(runs)}
    for path in paths[:2]:
        said = rows[path.name]["verdict"]
        assert len(said) > 40
        assert written(files_answer(read_and_analyze(path)), "terminal", width=1_000).startswith(
            said
        )
    assert (rows["timeline.json"]["tone"], rows["nccl.log"]["tone"]) == ("", "good")
    assert rows["notes.txt"]["verdict"] == "no verdict: open to see why"
    # A large one waits for its reader.
    monkeypatch.setattr(run_rows, "MOST_BYTES", 10)
    large = RunStore(paths[:1])
    pages.runs._analyze_next(large)
    assert rows_of(large)[0]["verdict"] == "open to analyze"
    large.finished("timeline.json")
    assert rows_of(large)[0]["verdict"] == rows["timeline.json"]["verdict"]


def test_a_folder_of_files_with_a_link_that_leads_nowhere_has_its_verdict(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    nccl_file(folder)
    (folder / "latest.log").symlink_to(tmp_path / "gone.log")
    runs = RunStore([folder])
    assert rows_of(runs)[0]["verdict"] == "not analyzed yet"
    pages.runs._analyze_next(runs)
    assert len(str(rows_of(runs)[0]["verdict"])) > 40


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


def test_names_and_verdicts_may_wrap_where_a_phone_has_no_hover(tmp_path):
    write_run(tmp_path / "one", [PassSpec()])
    page = shown_text(layout(RunStore([tmp_path / "one"]), View("/runs", {})))
    assert page.count('"wrapText": true') == page.count('"autoHeight": true') == 2
    assert '"tooltipField": "verdict"' in page


@pytest.mark.browser
def test_the_sentence_of_a_file_is_whole_and_wide_on_a_phone(tmp_path):
    write_run(tmp_path / "one", [PassSpec()])
    (tmp_path / "timeline.json").write_text("[]")
    paths = [tmp_path / "one", tmp_path / "timeline.json"]
    with served(RunStore(paths)) as address, watched_page(address, width=1280) as watched:
        page = watched.page
        show(watched, f"{address}/runs")
        of_file = page.locator('[row-id="timeline.json"] [col-id="verdict"]')
        of_file.wait_for()
        wait_until(
            page,
            """[...document.querySelectorAll('[col-id="verdict"].whole')].length === 1""",
        )
        assert of_file.evaluate("cell => getComputedStyle(cell).whiteSpace") == "normal"
        assert of_file.evaluate("cell => cell.scrollWidth <= cell.clientWidth + 1")
        page.set_viewport_size({"width": 390, "height": 844})
        wait_until(page, "!document.querySelector('[col-id=\"efficiency\"]')")
        assert of_file.evaluate("cell => cell.clientWidth") >= 160
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
