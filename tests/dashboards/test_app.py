import socket
from types import SimpleNamespace

import pytest

from hvdprof.dashboards import app as app_module
from hvdprof.dashboards.access import Access
from hvdprof.dashboards.app import PAGES, TABS, create_app, serve
from hvdprof.dashboards.pages import Tab, never_empty
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.shell import content, page_for, resolved
from hvdprof.dashboards.view import View
from hvdprof.errors import EnvironmentNotReadyError, UnreadableInputError
from tests.builders.browser import wait_until, watched_page
from tests.builders.finished_analysis import SENTENCE, full_analysis
from tests.builders.served_dashboard import served


def store(tmp_path, names=("quick",)):
    folders = [tmp_path / name for name in names]
    for folder in folders:
        folder.mkdir()
    return RunStore(folders, read=lambda _: full_analysis())


@pytest.mark.parametrize(
    ("search", "run"),
    [
        ("?run=two", "two"),
        ("?run=gone", "gone"),
        ("", "one"),
        (None, "one"),
        ("?run=..%2Ftwo", "../two"),
    ],
)
def test_the_address_chooses_the_run_and_the_first_one_is_the_default(tmp_path, search, run):
    assert resolved(store(tmp_path, names=("one", "two")), "/", search).run == run


def test_without_runs_the_page_says_how_to_get_one():
    runs = RunStore([])
    assert resolved(runs, "/", "").run is None
    view = resolved(runs, "/", "?run=a")
    assert "hvdprof bench" in str(content(PAGES[0], runs, view))


def test_what_the_address_names_and_is_not_there_is_not_found(tmp_path):
    runs = store(tmp_path)
    assert page_for(PAGES, "/nowhere") is None
    nowhere = content(None, runs, View("/nowhere", {"run": "quick"}))
    assert "Not found: there is no page '/nowhere'" in str(nowhere)
    gone = content(PAGES[0], runs, View("/", {"run": "../quick"}))
    assert "Not found: there is no run '../quick' here." in str(gone)
    assert "resnet18" not in str(gone)


def test_a_run_that_cannot_be_read_is_an_alert_with_the_hint(tmp_path):
    def refuse(folder):
        raise UnreadableInputError("It is damaged.", hint="Run it again.")

    runs = RunStore([tmp_path], read=refuse)
    alert = content(PAGES[0], runs, View("/", {"run": tmp_path.name}))
    assert alert.title == "It is damaged."
    assert alert.children.children == "Run it again."


def test_an_error_of_one_page_is_shown_and_leaves_the_others_working(tmp_path, caplog):
    def fail(folder):
        raise ZeroDivisionError("by zero")

    runs = RunStore([tmp_path], read=fail)
    alert = content(PAGES[0], runs, View("/", {"run": tmp_path.name}))
    assert "bug in hvdprof" in alert.title
    assert "ZeroDivisionError: by zero" in alert.children.children
    assert "Diagnosis" in caplog.text


def test_two_apps_are_independent(tmp_path):
    runs = store(tmp_path)
    assert create_app(runs).callback_map.keys() == create_app(runs).callback_map.keys()


def test_every_script_and_style_is_served_by_the_app_itself(tmp_path):
    client = create_app(store(tmp_path)).server.test_client()
    page = client.get("/").text
    assert "http://" not in page
    assert "https://" not in page
    assert "hvdprof.css" in page


def test_a_port_in_use_is_one_message():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentNotReadyError, match=f"127.0.0.1:{port}") as error:
            serve([], address=("127.0.0.1", port), on_ready=lambda _: None, access=Access())
    assert "--port" in error.value.hint


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_the_verdict_and_the_figures(tmp_path, width):
    with served(store(tmp_path)) as address, watched_page(address, width=width) as watched:
        page = watched.page
        page.goto(address)
        page.locator("summary", has_text="All numbers").click()
        for drawn in (".losses .barlayer path", ".scaling .scatterlayer .trace"):
            page.wait_for_selector(drawn, state="attached", timeout=60_000)
        assert page.inner_text("h1").replace("\N{NO-BREAK SPACE}", " ") == SENTENCE.replace(
            " against torch np=1", ""
        ).replace(" (11.3 %).", ".")
        assert page.locator(".scaling .scatterlayer .trace").count() >= 4
        assert page.locator(".losses .barlayer path").count() >= 10
        assert "rank 1 was killed by SIGKILL" in page.inner_text("main")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.url == f"{address}/?run=quick"
        assert watched.complaints == []
        assert watched.foreign_requests == []


@pytest.mark.browser
def test_another_run_can_be_chosen_and_linked(tmp_path):
    runs = store(tmp_path, names=("one", "two"))
    with served(runs) as address, watched_page(address) as watched:
        page = watched.page
        page.goto(f"{address}/?run=two")
        page.wait_for_selector("h1")
        page.wait_for_load_state("networkidle")
        chooser = page.get_by_role("textbox", name="Run")
        assert chooser.input_value() == "two"
        chooser.click()
        page.get_by_role("option", name="one").click()
        page.wait_for_url(f"{address}/?run=one")
        page.go_back()
        page.wait_for_url(f"{address}/?run=two")
        wait_until(page, "document.querySelector('input[aria-label=Run]').value === 'two'")
        assert watched.complaints == []


def test_a_new_page_is_one_entry(tmp_path, monkeypatch):
    registered = []
    page = SimpleNamespace(
        PATH="/dummy",
        TITLE="Dummy",
        KEYS=("np",),
        layout=lambda runs, view: f"{view.run} with {len(runs.ids)} runs",
        lack=never_empty,
        register=lambda app, runs: registered.append(app),
    )
    monkeypatch.setattr(app_module, "TABS", (*TABS, Tab("Dummy", (page,))))
    runs = store(tmp_path)
    assert registered == [create_app(runs)]
    assert page_for((*PAGES, page), "/dummy") is page
    assert "quick with 1 runs" in str(content(page, runs, resolved(runs, "/dummy", "")))
