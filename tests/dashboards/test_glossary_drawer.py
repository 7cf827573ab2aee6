"""The definition of a term in a real browser: by keyboard, and in the drawer."""

import pytest

from hvdprof.dashboards.pages import ranks
from hvdprof.dashboards.run_store import RunStore
from hvdprof.model.glossary import GLOSSARY, term
from tests.builders.browser import serious_violations, show, wait_until, watched_page
from tests.builders.served_dashboard import measured_run, served

DEFINITIONS = {one.definition.replace("`", "") for one in GLOSSARY}

IN_SIGHT = """id => {
    const term = document.getElementById(id);
    const at = term ? term.getBoundingClientRect().top : -2;
    return at >= -1 && at < window.innerHeight;
}"""
OPENED = "document.querySelectorAll('details').forEach(one => { one.open = true; })"
SHOWN_TERMS = """() => [...document.querySelectorAll('.glossary-term:not([hidden]) h3')]
    .map(one => one.textContent)"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """The address of a dashboard of one run, which is analyzed once, and a page of a browser."""
    runs = RunStore([measured_run(tmp_path_factory.mktemp("measured") / "run")])
    with served(runs) as address, watched_page(address) as watched:
        yield address, watched


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_a_term_shows_its_definition_on_focus_and_links_to_its_entry(opened, width):
    exposed = term("exposed communication")
    address, watched = opened
    watched.resize(width, dark=False)
    page = watched.page
    show(watched, f"{address}{ranks.PATH}?run=run")
    link = page.get_by_role("link", name="exposed communication", exact=True).first
    link.focus()
    page.wait_for_selector("[role=tooltip]")
    assert page.inner_text("[role=tooltip]") == exposed.definition
    assert serious_violations(page) == []
    # Titles, headings of tables and the lines above grids are reached by the same keys.
    page.evaluate(OPENED)
    for place in ("h2 a.term", "th a.term", "p.about a.term"):
        page.evaluate("document.activeElement.blur()")
        page.wait_for_selector("[role=tooltip]", state="detached")
        page.locator(place).first.focus()
        page.wait_for_selector("[role=tooltip]")
        assert page.inner_text("[role=tooltip]") in DEFINITIONS, place
    page.evaluate("document.activeElement.blur()")
    page.wait_for_selector("[role=tooltip]", state="detached")
    assert serious_violations(page) == []
    # The address of the former page opens the drawer at the term, beside the first page.
    show(watched, f"{address}/glossary?run=run#{exposed.anchor}")
    wait_until(page, IN_SIGHT, arg=exposed.anchor)
    assert page.locator("h1").count() == 1
    assert serious_violations(page) == []
    assert watched.complaints == []


@pytest.mark.browser
def test_the_drawer_is_opened_by_key_and_by_term_and_searched(opened):
    address, watched = opened
    watched.resize(1280, dark=False)
    page = watched.page
    show(watched, f"{address}{ranks.PATH}?run=run")
    before = page.url
    page.keyboard.press("?")
    page.get_by_role("textbox", name="Search terms").fill("busbw")
    wait_until(page, f"({SHOWN_TERMS})().length < 6")
    shown = page.evaluate(SHOWN_TERMS)
    assert "busbw" in shown
    page.get_by_role("textbox", name="Search terms").fill("")
    wait_until(page, f"({SHOWN_TERMS})().length === {len(GLOSSARY)}")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.get_by_role("link", name="exposed communication", exact=True).first.click()
    wait_until(page, IN_SIGHT, arg=term("exposed communication").anchor)
    # The page below stays where it is.
    assert page.url == before
    assert watched.complaints == []
