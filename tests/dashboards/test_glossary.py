"""The definition of a term in a real browser: by keyboard, and on its page."""

import pytest

from hvdprof.dashboards.pages import breakdown
from hvdprof.dashboards.run_store import RunStore
from hvdprof.model.glossary import GLOSSARY, term
from tests.builders.browser import serious_violations, show, wait_until, watched_page
from tests.builders.served_dashboard import measured_run, served

DEFINITIONS = {one.definition.replace("`", "") for one in GLOSSARY}


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
    show(watched, f"{address}{breakdown.PATH}?run=run")
    link = page.get_by_role("link", name="Exposed communication", exact=True)
    link.focus()
    page.wait_for_selector("[role=tooltip]")
    assert page.inner_text("[role=tooltip]") == exposed.definition
    assert serious_violations(page) == []
    # Titles, headings of tables and the lines above grids are reached by the same keys.
    show(watched, f"{address}/stalls?run=run")
    for place in ("h2 a.term", "th a.term", "p.about a.term"):
        page.locator(place).first.focus()
        page.wait_for_selector("[role=tooltip]")
        assert page.inner_text("[role=tooltip]") in DEFINITIONS, place
        page.evaluate("document.activeElement.blur()")
        page.wait_for_selector("[role=tooltip]", state="detached")
    assert serious_violations(page) == []
    show(watched, f"{address}/glossary?run=run#{exposed.anchor}")
    wait_until(
        page,
        "id => { const at = document.getElementById(id).getBoundingClientRect().top;"
        " return at >= -1 && at < window.innerHeight; }",
        arg=exposed.anchor,
    )
    assert serious_violations(page) == []
