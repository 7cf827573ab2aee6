import pytest

from hvdprof.dashboards.components.run_outcome import (
    LATEST_RUNS,
    latest_of_model,
    runs_in,
    text_of_runs,
)
from hvdprof.dashboards.pages import history
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from tests.builders.analysis import sweep
from tests.builders.browser import watched_page
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.served_dashboard import (
    check_in_browser,
    page_text,
    served,
    shown_text,
    standalone_timeline,
)

NOTHING = "A history needs two runs of the same model"


def series(folder, names):
    """Runs of one model, each slower than the one before."""
    return [
        write_run(folder / name, sweep({1: 10.0, 2: 12.0 + number}))
        for number, name in enumerate(names)
    ]


def shown(paths, **values):
    runs = RunStore(paths)
    view = View(history.PATH, {"run": runs.ids[0]}).changed(**values)
    return shown_text(history.layout(runs, view))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a|c", ["a", "c"]), ("a|a|../etc|", ["a"]), ("", [])],
)
def test_the_address_names_the_runs_of_a_history(text, expected):
    assert runs_in(text, ["c", "b", "a"]) == expected


def test_an_address_holds_no_more_than_it_can():
    assert text_of_runs(["a", "b"]) == "a|b"
    assert text_of_runs(["a" * 200, "b" * 200]) is None


@pytest.mark.slow
def test_the_efficiency_of_every_run_is_shown_with_its_interval(tmp_path):
    text = shown(series(tmp_path, "abc"))
    assert "No change of the scaling efficiency beyond the margin found in 3 runs." in text
    assert "Scaling efficiency of mnist" in text
    assert "83.3 %" in text
    # With full numbers and the ends of the interval in columns of their own.
    assert "value,low,high,segment,is_change,change,is_suspected,metric,unit" in text
    assert '"href": "/?run=c"' in text


@pytest.mark.slow
def test_metric_model_and_runs_come_from_the_address(tmp_path):
    paths = series(tmp_path, "abc")
    text = shown(paths, metric="step_time", history="a|b", model="no-such")
    assert "Step time of mnist" in text
    assert "step time +8.3 % from b on: changed, not confirmed (" in text
    assert '"+8.3 %, not confirmed"' in text
    assert "/?run=c" not in text


@pytest.mark.slow
def test_runs_of_other_models_and_damaged_ones_leave_the_series_as_it_is(tmp_path):
    other = SegmentSpec(model="train.py")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "junk").write_text("nothing")
    paths = [
        damaged,
        write_run(tmp_path / "other", [PassSpec(size=size, segments=[other]) for size in (1, 2)]),
        *series(tmp_path, "ab"),
    ]
    # The first run, which is shown by default, cannot be read.
    assert "from b on" in shown(paths, model="mnist")
    text = shown(paths, history="damaged|a|b")
    assert "from b on" in text
    assert "damaged is left out: " in text
    assert "/?run=other" not in shown(paths, run="a")


@pytest.mark.heavy
def test_no_more_than_the_latest_runs_are_read_by_default(tmp_path):
    paths = [write_run(tmp_path / f"r{number}", [PassSpec()]) for number in range(LATEST_RUNS + 2)]
    runs = RunStore([standalone_timeline(tmp_path), *paths])
    assert latest_of_model(runs, "mnist") == [path.name for path in paths[:LATEST_RUNS]]
    assert latest_of_model(runs, "resnet50") == []


@pytest.mark.slow
@pytest.mark.parametrize("make", [standalone_timeline, lambda folder: series(folder, "a")[0]])
def test_with_fewer_than_two_runs_it_says_what_is_needed(tmp_path, make):
    text = page_text(history, make(tmp_path))
    assert NOTHING in text
    assert "hvdprof bench --preset quick" in text


@pytest.mark.browser
def test_in_a_browser(tmp_path):
    check_in_browser(history, tmp_path, {"measured": NOTHING, "timeline": NOTHING})


@pytest.mark.browser
def test_the_list_of_runs_leads_to_the_history_and_a_long_name_stays_in_its_box(tmp_path):
    paths = series(tmp_path, ["a", "b", "very-long-name-" * 12])
    with served(RunStore(paths)) as address, watched_page(address, width=390) as watched:
        page = watched.page
        page.goto(address)
        page.get_by_role("link", name="History").click()
        page.wait_for_url("**/history*")
        page.wait_for_selector(".history .scatterlayer .trace")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        # The plot keeps its height.
        plot = page.locator(".history .nsewdrag").first.bounding_box()
        assert plot["height"] > 150
        assert watched.complaints == []
