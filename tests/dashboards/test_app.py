import socket
import threading
from contextlib import contextmanager

import pytest
from waitress import wasyncore
from waitress.server import create_server

from dashboards.app import chosen_run, create_app, page_for, serve
from dashboards.pages import overview
from dashboards.run_store import RunStore
from hvdprof.errors import EnvironmentNotReadyError
from tests.builders.browser import watched_page
from tests.builders.finished_analysis import SENTENCE, full_analysis


@contextmanager
def served(runs):
    server = create_server(create_app(runs).server, host="127.0.0.1", port=0, threads=8)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}/"
    finally:
        server.trigger.pull_trigger(lambda: wasyncore.close_all(server._map))
        thread.join(timeout=10)
        server.task_dispatcher.shutdown()
        assert not thread.is_alive()


def store(tmp_path, names=("quick",)):
    folders = [tmp_path / name for name in names]
    for folder in folders:
        folder.mkdir()
    return RunStore(folders, read=lambda _: full_analysis())


@pytest.mark.parametrize(
    ("search", "selected", "by_address", "chosen"),
    [
        ("?run=b", "a", True, "b"),
        ("?run=b", "a", False, "a"),
        ("?run=gone", "a", True, "a"),
        ("", "b", True, "b"),
        (None, None, True, "a"),
        ("?run=..%2Fb", None, True, "a"),
    ],
)
def test_the_address_or_the_list_chooses_the_run(search, selected, by_address, chosen):
    assert chosen_run(["a", "b"], search, selected, by_address=by_address) == chosen


def test_without_runs_none_is_chosen():
    assert chosen_run([], "?run=a", None, by_address=True) is None


def test_a_path_without_a_page_shows_the_first():
    assert page_for("/nowhere").children.id == overview.layout().children.id


def test_two_apps_are_independent(tmp_path):
    runs = store(tmp_path)
    assert create_app(runs).callback_map.keys() == create_app(runs).callback_map.keys()
    assert len(create_app(runs).callback_map) == 3


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
            serve([], host="127.0.0.1", port=port, on_ready=lambda address: None)
    assert "--port" in error.value.hint


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_the_verdict_and_the_figures(tmp_path, width):
    with served(store(tmp_path)) as address, watched_page(address, width=width) as watched:
        page = watched.page
        page.goto(address)
        page.wait_for_selector(".losses .barlayer path", state="attached", timeout=60_000)
        assert page.inner_text("h1") == SENTENCE
        assert page.locator(".scaling-curve .scatterlayer .trace").count() >= 4
        assert page.locator(".losses .barlayer path").count() >= 10
        assert "rank 1 was killed by SIGKILL" in page.inner_text("main")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.url == f"{address}?run=quick"
        assert watched.complaints == []
        assert watched.foreign_requests == []


@pytest.mark.browser
def test_another_run_can_be_chosen_and_linked(tmp_path):
    runs = store(tmp_path, names=("one", "two"))
    with served(runs) as address, watched_page(address) as watched:
        page = watched.page
        page.goto(f"{address}?run=two")
        page.wait_for_selector("h1")
        assert page.input_value("#run") == "two"
        page.click("#run")
        page.get_by_role("option", name="one").click()
        page.wait_for_url(f"{address}?run=one")
        assert watched.complaints == []
