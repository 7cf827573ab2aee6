"""The first screen and the list of runs in a real browser: one browser and one app for all."""

import json
import shutil

import pytest

from hvdprof.dashboards.run_store import RunStore
from tests.builders.browser import serious_violations, show, wait_until, watched_page
from tests.builders.run_directory import PassSpec, write_run
from tests.builders.served_dashboard import measured_run, served

pytestmark = pytest.mark.browser

FOLD = 800
LONG_NAME = "n" * 120
CLICK_ON_STRAGGLER = """() => {
    const graph = document.querySelector(".waterfall .js-plotly-plot");
    const place = graph.data.findIndex(bar => String(bar.customdata).startsWith("straggler"));
    graph.emit("plotly_click", {points: [{data: graph.data[place], pointNumber: 0}]});
}"""
COPIED = """() => { window.copied = []; Object.defineProperty(navigator, 'clipboard', {value: {
    writeText: text => { window.copied.push(text); return Promise.resolve(); }}}); }"""
EFFICIENCIES = """() => [...document.querySelectorAll('[col-id=efficiency].ag-cell')]
    .map(one => one.textContent).filter(text => text.includes('%')).length"""
HEIGHTS = """() => [...new Set([...document.querySelectorAll(
    '#runs-grid .ag-center-cols-container .ag-row')].map(one => one.offsetHeight))]"""
SHOWN_COLUMNS = """() => [...document.querySelectorAll('#runs-grid .ag-header-cell-text')]
    .map(one => one.textContent).filter(text => text)"""

SKELETON = """() => { const bones = getComputedStyle(document.querySelector('main'));
    return [bones.backgroundImage.split('gradient').length > 4,
        document.querySelector('main').offsetHeight > 500]; }"""

PHONE_TEXTS = """(() => {
  const texts = [...document.querySelectorAll(".waterfall .barlayer text")];
  const end = document.querySelector(".waterfall .main-svg").getBoundingClientRect().right;
  return texts.length > 2 && texts.every((text) => text.getBoundingClientRect().right <= end)
    && texts.every((text) => !text.textContent.includes("pts"));
})()"""

HEADER_HELD_BACK = """() => {
    const fetched = window.fetch;
    window.held = [];
    window.fetch = async (url, asked) => {
        const answer = await fetched(url, asked);
        if (String(asked?.body).includes('"output":"..header-links.children')) {
            await new Promise(done => window.held.push(done));
        }
        return answer;
    };
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    first = measured_run(runs / "first")
    for name in ("second", LONG_NAME):
        shutil.copytree(first, runs / name)
    planned = [PassSpec(size=2), PassSpec(size=2, status="planned", repeat=2)]
    write_run(runs / "third", planned, status="running")
    return runs


@pytest.fixture(scope="module")
def opened(folder):
    with (
        served(RunStore([], watched=[folder], check_every_s=0.1)) as address,
        watched_page(address, height=FOLD) as watched,
    ):
        yield address, watched


def test_the_whole_diagnosis_is_on_one_screen(opened):
    address, watched = opened
    page = watched.page
    page.set_viewport_size({"width": 1440, "height": 900})
    show(watched, f"{address}/?run=first")
    page.wait_for_selector(".waterfall .barlayer path", state="attached")
    assert page.evaluate("document.documentElement.scrollHeight") <= 900
    assert page.inner_text("h1") == "Rank 1 is too slow in forward."
    assert "Costs 2.9" in page.inner_text(".band")
    assert page.locator(".rank-row").count() == 3
    assert page.locator(".rank-named").count() == 1
    assert page.locator(".rank-named").inner_text().startswith("+3")
    # All steady steps, the warm-up pale; the cause acts in nearly all of them.
    assert page.locator(".strip-step").count() > 40
    assert "acts in" in page.locator(".run-strip").get_attribute("aria-label")
    assert page.locator("details.finding[open], details.fold[open]").count() == 0
    assert serious_violations(page) == []
    page.set_viewport_size({"width": 1280, "height": FOLD})
    assert watched.complaints == []


def test_what_is_drawn_leads_to_what_it_shows(opened):
    address, watched = opened
    page = watched.page
    show(watched, f"{address}/?run=first")
    page.wait_for_selector(".waterfall .barlayer path", state="attached")
    wait_until(page, "document.querySelector('.waterfall .js-plotly-plot')?.opensFindings")
    page.evaluate(CLICK_ON_STRAGGLER)
    page.locator("details.finding[open] .finding-title", has_text="rank 1").wait_for()
    page.locator(".strip-step").nth(3).click()
    page.wait_for_url("**/timeline?*step=*")
    show(watched, f"{address}/?run=first")
    page.locator("a.rank-row").nth(1).click()
    page.wait_for_url("**/timeline?*ranks=1*")
    assert watched.complaints == []


def test_model_and_ranks_are_chosen_once_for_tiles_and_figures(opened):
    address, watched = opened
    page = watched.page
    show(watched, f"{address}/?run=first")
    page.get_by_role("textbox", name="Setting").click()
    page.get_by_role("option", name="fp16").click()
    page.wait_for_url("**toggles=fp16*")
    wait_until(page, "document.querySelector('.waterfall')?.textContent.includes('2 ranks')")
    # The choice stays on every page of the run, and in the address.
    pages = page.get_by_role("navigation", name="Pages")
    pages.get_by_role("link", name="Ranks", exact=True).click()
    page.wait_for_url("**toggles=fp16*")
    page.get_by_role("heading", name="Ranks", exact=True).wait_for(state="attached")
    assert "fp16" in page.get_by_role("textbox", name="Launch").input_value()
    pages.get_by_role("link", name="Compare", exact=True).click()
    second = page.get_by_role("textbox", name="Second")
    second.wait_for()
    assert "fp16" in second.input_value()
    pages.get_by_role("link", name="Diagnosis", exact=True).click()
    page.wait_for_url("**/?*toggles=fp16*")
    wait_until(page, "document.querySelector('.waterfall')?.textContent.includes('2 ranks')")


def test_a_tab_opened_before_the_header_is_drawn_anew_has_the_choice(opened):
    address, watched = opened
    page = watched.page
    show(watched, f"{address}/?run=first")
    page.evaluate(HEADER_HELD_BACK)
    page.get_by_role("textbox", name="Setting").click()
    page.get_by_role("option", name="fp16").click()
    page.wait_for_url("**toggles=fp16*")
    wait_until(page, "window.held.length > 0")
    pages = page.get_by_role("navigation", name="Pages")
    pages.get_by_role("link", name="Ranks", exact=True).click()
    page.wait_for_url("**/ranks?*toggles=fp16*", timeout=20_000)
    page.evaluate("window.held.forEach(done => done())")
    assert watched.complaints == []


def test_folded_findings_open_and_only_the_command_is_copied(opened):
    address, watched = opened
    page = watched.page
    show(watched, f"{address}/?run=first")
    assert page.locator("details.finding[open]").count() == 0
    summary = page.locator("details.finding summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("details.finding").first.evaluate("one => one.open")
    page.evaluate(COPIED)
    page.evaluate("document.querySelectorAll('details.finding').forEach(one => one.open = true)")
    buttons = page.locator(".finding").get_by_role("button", name="Copy")
    commands = page.locator(".finding .grow .mantine-Code-root").all_text_contents()
    assert buttons.count() == len(commands)
    for place, command in enumerate(commands):
        buttons.nth(place).click()
        assert page.evaluate("window.copied")[-1] == command


def test_several_runs_begin_with_their_list(opened):
    address, watched = opened
    page = watched.page
    show(watched, address)
    page.wait_for_selector(".ag-row")
    assert page.locator(".ag-center-cols-container .ag-row").count() == 4
    assert "running: 1 of 2 passes" in page.inner_text("main")
    # Analyzed one after the other, without a click.
    wait_until(page, f"({EFFICIENCIES})() >= 2")
    # One line each, even of a name of 120 letters; the step times are a picture.
    assert page.evaluate(HEIGHTS) == [32]
    assert page.locator("#runs-grid .spark polyline").count() >= 2
    assert page.locator("#runs-grid .dot-caution").count() >= 2
    assert page.locator(".runs-bar").is_hidden()
    page.get_by_role("textbox", name="Search runs").fill("sec")
    wait_until(page, "document.querySelectorAll('.ag-center-cols-container .ag-row').length === 1")
    page.get_by_role("textbox", name="Search runs").fill("")
    assert serious_violations(page) == []
    page.get_by_role("link", name="second", exact=True).click()
    page.wait_for_url("**/?run=second")
    page.wait_for_selector(".band")
    assert watched.complaints == []


def test_the_overview_follows_a_run_that_is_being_measured(opened, folder):
    address, watched = opened
    page = watched.page
    show(watched, f"{address}/?run=third")
    page.get_by_text("1 of 2 passes ended").wait_for()
    assert page.get_by_text("This run has changed").count() == 0
    file = folder / "third" / "manifest.json"
    record = json.loads(file.read_text())
    record["passes"][1]["status"] = "done"
    record["status"] = "done"
    file.write_text(json.dumps(record))
    held = []

    def is_page(request):
        return '"output":"..page.children' in (request.post_data or "")

    page.route(
        lambda url: "update-component" in url,
        lambda route: held.append(route) if is_page(route.request) else route.continue_(),
    )
    # The clock of the shell ticks every ten seconds.
    with page.expect_request(is_page, timeout=60_000):
        pass
    # Longer than it takes until a skeleton stands in the place of a page that is opened.
    page.wait_for_timeout(1_000)
    assert page.get_by_text("1 of 2 passes ended").is_visible()
    assert page.locator(".skeleton").count() == 0
    for route in held:
        route.continue_()
    page.unroute_all()
    page.get_by_text("1 of 2 passes ended").wait_for(state="detached", timeout=60_000)
    page.wait_for_selector(".band")
    record["passes"][1]["status"], record["status"] = "planned", "running"
    file.write_text(json.dumps(record))


def test_two_runs_are_compared_and_one_goes_to_the_trash(opened, folder):
    address, watched = opened
    page = watched.page
    show(watched, f"{address}/runs")
    page.wait_for_selector(".ag-row")
    bar = page.locator(".runs-bar")
    for number, name in enumerate(("first", "second", "third"), 1):
        page.locator(f"[row-id='{name}'] input[type=checkbox]").check()
        bar.get_by_text(f"{number} selected").wait_for()
    bar.get_by_role("button", name="Compare").click()
    page.get_by_text("Select two runs to compare.").wait_for()
    bar.get_by_role("button", name="Clear").click()
    bar.wait_for(state="hidden")
    page.locator("[row-id='second'] input[type=checkbox]").check()
    bar.get_by_role("button", name="Compare").click()
    # Of one run the page asks for the second, unless it holds two settings.
    page.wait_for_url("**/compare?run=second")
    show(watched, f"{address}/runs")
    for name in ("first", "second"):
        page.locator(f"[row-id='{name}'] input[type=checkbox]").check()
    bar.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?run=*&with=*")
    show(watched, f"{address}/runs")
    page.locator("[row-id='first'] input[type=checkbox]").check()
    bar.get_by_role("button", name="History").click()
    page.wait_for_url("**/history?run=first")
    page.get_by_text("of the model are read").wait_for()
    show(watched, f"{address}/runs")
    for name in ("first", "second"):
        page.locator(f"[row-id='{name}'] input[type=checkbox]").check()
    bar.get_by_role("button", name="History").click()
    page.wait_for_url("**/history?*history=*first*")
    page.wait_for_selector(".figure.history .scatterlayer path", state="attached")
    # The grid may be drawn after the figure; of two such columns Playwright would complain.
    page.get_by_role("columnheader", name="efficiency").wait_for()
    assert serious_violations(page) == []
    show(watched, f"{address}/runs")
    page.on("dialog", lambda dialog: dialog.accept())
    for name in ("second", "third"):
        page.locator(f"[row-id='{name}'] input[type=checkbox]").check()
    bar.get_by_role("button", name="Delete").click()
    page.get_by_text("third is being measured.").wait_for()
    assert (folder / ".trash" / "second" / "manifest.json").exists()
    assert (folder / "third" / "manifest.json").exists()
    wait_until(page, "!document.querySelector('[row-id=second]')")


def test_until_a_page_is_drawn_its_skeleton_stands_in_its_place(opened):
    address, watched = opened
    page = watched.page
    held, released = [], []
    page.route(
        lambda url: "update-component" in url,
        lambda route: route.continue_() if released else held.append(route),
    )
    page.goto(f"{address}/?run=first")
    page.wait_for_selector("main:empty", state="attached")
    assert page.evaluate(SKELETON) == [True, True]
    released.append(True)
    for route in held:
        route.continue_()
    page.wait_for_selector("main > *")
    page.unroute_all()
    assert watched.complaints == []


def test_what_is_not_there_is_not_found(opened):
    address, watched = opened
    page = watched.page
    show(watched, f"{address}/ranks?run=nosuchrun")
    assert "Not found: there is no run 'nosuchrun' here." in page.inner_text("main")
    assert "run=nosuchrun" in page.url
    show(watched, f"{address}/nowhere?run=first")
    assert "Not found: there is no page '/nowhere'." in page.inner_text("main")
    # The browser notes the status of that address; the page is that of all tests here.
    assert all("404" in text for text in watched.complaints)
    watched.complaints.clear()


def test_on_a_phone_nothing_is_wider_than_the_page_and_tabs_scroll(opened):
    address, watched = opened
    page = watched.page
    page.set_viewport_size({"width": 390, "height": FOLD})
    page.emulate_media(color_scheme="dark")
    show(watched, f"{address}/?run={LONG_NAME}")
    page.wait_for_selector(".waterfall .barlayer path", state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tabs = page.locator(".shell-nav")
    assert tabs.evaluate("one => one.scrollWidth > one.clientWidth")
    assert "gradient" in tabs.evaluate("one => getComputedStyle(one).backgroundImage")
    assert page.locator(".modebar-container").first.is_hidden()
    # The texts beside the bars stay within the figure.
    wait_until(page, PHONE_TEXTS)
    show(watched, f"{address}/runs")
    wait_until(page, f"({SHOWN_COLUMNS})().join() === 'run,verdict'")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious_violations(page) == []
    assert watched.complaints == []
