import base64
import gzip
import io
import re
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import pytest

from hvdprof import __version__
from hvdprof.api import analyze_run, load_run
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.report.document.html_report import html_page
from hvdprof.report.document.markdown_report import MarkdownReporter
from hvdprof.rundir.stopping import Stop, StopReason
from tests.builders import finished_analysis
from tests.builders.analysis import analysis_of, sweep
from tests.builders.browser import (
    CLOUD_BUTTON,
    SERVERS,
    serious_violations,
    wait_until,
    watched_page,
)
from tests.builders.profiler_traces import TracedJob, write_traces
from tests.builders.run_directory import PassSpec, SegmentSpec

WIDEST_FIGURE = """() => Math.max(
    ...[...document.querySelectorAll('.main-svg')].map(one => one.getBoundingClientRect().width))"""
HOSTILE = "<script>alert(1)</script> | `x` [y](z)"


@pytest.mark.heavy
def test_the_page_fetches_nothing_and_stays_below_two_megabytes():
    page = html_page(finished_analysis.full_analysis())

    own = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=", own)
    assert len(page.encode()) < 2e6


def unpacked(page):
    """plotly and the drawing of each figure, as the browser unpacks them."""
    (text,) = re.findall(r'<script type="text/plain" id="packed-figures">(.*?)</script>', page)
    assert "<" not in text
    (length,) = re.findall(r"bytes\.subarray\(0, (\d+)\)", page)
    return gzip.decompress(base64.b85decode(text.replace(",", "<"))[: int(length)]).decode()


@pytest.mark.heavy
def test_the_same_analysis_gives_the_same_bytes():
    analysis = finished_analysis.full_analysis()

    assert html_page(analysis) == html_page(analysis)


@pytest.mark.heavy
def test_the_verdict_and_every_figure_are_in_it():
    page = html_page(finished_analysis.full_analysis())

    assert f"<h1>{finished_analysis.HEADLINE}</h1>" in page
    assert 'id="figure-scaling"' in page
    assert 'id="figure-losses"' in page


@pytest.mark.slow
def test_details_are_shown_where_there_are_data_for_them(tmp_path):
    page = html_page(analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 12.5}, blocked_ms={2: 2.0})))

    assert 'id="figure-lateness"' in page
    assert 'id="figure-parts"' in page
    assert 'id="figure-transfer"' not in page
    assert page.index('id="figure-losses"') < page.index('id="figure-parts"')
    assert page.index('id="figure-parts"') < page.index("<h2>All numbers</h2>")


@pytest.mark.slow
def test_text_of_logs_stays_text():
    analysis = finished_analysis.analysis(
        finished_analysis.two_toggles(), failed=(finished_analysis.failed(reason=HOSTILE),)
    )

    assert "<script>alert" not in html_page(analysis)
    assert "&lt;script&gt;alert" in html_page(analysis)


def markdown(analysis):
    stream = io.StringIO()
    MarkdownReporter().render(analysis, stream)
    return stream.getvalue()


@pytest.mark.heavy
def test_what_stands_in_backticks_is_code():
    row = finished_analysis.finding(action="Run `hvdprof net <H>` and read it.")
    page = html_page(finished_analysis.analysis(findings=FINDINGS.frame([row])))

    assert "Run <code>hvdprof net &lt;H&gt;</code> and read it." in page


@pytest.mark.heavy
def test_a_command_in_markdown_can_be_copied_from_the_raw_file():
    row = finished_analysis.finding(
        action="Run `hvdprof tune -- python a1_accum.py [x]` on node_1, not ` .", evidence="a_b"
    )
    text = markdown(finished_analysis.full_analysis(findings=FINDINGS.frame([row])))

    assert r"Run `hvdprof tune -- python a1_accum.py [x]` on node\_1, not \` ." in text
    assert r"a\_b" in text


@pytest.mark.heavy
def test_every_finding_is_an_item_of_its_own_in_markdown():
    rows = [finished_analysis.finding(subject=name, action=name) for name in ("a", "b", "c")]
    text = markdown(finished_analysis.full_analysis(findings=FINDINGS.frame(rows)))

    items = text.split("- **warning: Peer access between GPUs disabled**")[1:]
    actions = [re.search(r"^  \*\*Action:\*\* (.*)$", item, re.MULTILINE) for item in items]
    assert [found and found[1] for found in actions] == ["a", "b", "c"]
    assert all("`nccl.log:7: node1:1:1" in item for item in items)
    heads = [n for n, line in enumerate(text.splitlines()) if line.startswith("### ")]
    assert all(text.splitlines()[n - 1] == text.splitlines()[n + 1] == "" for n in heads)


@pytest.mark.heavy
def test_both_say_where_it_ran():
    analysis = finished_analysis.full_analysis()

    assert "- hosts: node1 (AMD EPYC, 2 cores)" in markdown(analysis)
    assert '<th scope="row" class="text">hosts</th>' in html_page(analysis)


@pytest.mark.heavy
def test_both_say_why_the_measurement_stopped():
    stop = Stop(
        reason=StopReason.PRECISION,
        num_repeats=3,
        most_repeats=6,
        half_width=0.0243,
        precision=0.03,
        budget_s=300.0,
        elapsed_s=212.4,
    )
    run = finished_analysis.run(manifest=finished_analysis.manifest(stop=stop))
    stopped = finished_analysis.full_analysis(run=run)
    sentence = "Stopped after 3 of at most 6 repeats: ±2.4 % reached (3 % asked)."

    assert f'<p class="dim">{sentence}</p>' in html_page(stopped)
    assert f"\n\n{sentence}\n\n" in markdown(stopped)
    for text in (html_page, markdown):
        assert "Stopped" not in text(finished_analysis.full_analysis())


@pytest.mark.heavy
def test_the_first_page_holds_the_tiles_two_low_figures_and_what_to_do():
    page = html_page(finished_analysis.full_analysis())

    body = page[page.index("<main>") :]
    order = ("against torch np=1", 'id="figure-scaling"', 'id="figure-waterfall"', "Unset NCCL_")
    places = [body.index(text) for text in (*order, 'id="figure-waterfall-all"', "All numbers")]
    assert places == sorted(places)
    assert "2026-11-20" in body[: places[0]]


@pytest.mark.heavy
def test_no_figure_offers_to_send_it_to_a_service():
    page = html_page(finished_analysis.full_analysis())

    scripts = unpacked(page)
    assert scripts.count('"showSendToCloud": false') == page.count('<div id="figure-')
    assert 'Plotly.setPlotConfig({plotlyServerURL: ""})' in scripts


@pytest.mark.browser
def test_every_figure_fits_on_the_paper_and_loads_nothing(tmp_path):
    file = tmp_path / "report.html"
    file.write_text(html_page(finished_analysis.full_analysis()), encoding="utf-8")
    with watched_page("file:", width=1280) as watched:
        page = watched.page
        page.goto(file.as_uri())
        page.wait_for_selector("#figure-losses .main-svg", state="attached")
        assert serious_violations(page) == []
        page.hover("#figure-scaling")
        assert page.locator(".modebar-btn").count() > 0
        assert page.locator(CLOUD_BUTTON).count() == 0
        assert page.evaluate(SERVERS) == [""]
        wide = page.evaluate(WIDEST_FIGURE)
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        wait_until(page, f"({WIDEST_FIGURE})() <= 680")
        assert wide > 680
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        wait_until(page, f"({WIDEST_FIGURE})() > 680")
        assert watched.complaints == []
        assert watched.foreign_requests == []


@pytest.mark.heavy
def test_the_steps_of_the_finding_are_drawn_without_a_script(tmp_path):
    page = html_page(late_every_other_step(tmp_path))

    (still,) = re.findall(r'<svg class="still".*?</svg>', page)
    root = ET.fromstring(still)
    boxes = [one for one in root.iter("rect") if (one[0].text or "").startswith("data, ")]
    widths = sorted(float(one.attrib["width"]) for one in boxes)
    # 13 ms of a window of 3 steps of 28.5 ms on 990 pixels.
    assert widths[-1] == pytest.approx(990 * 13 / 85.5, rel=0.02)
    assert "Rank 1 late every 2 steps, data phase: a typical step" in page
    assert page.index("Ranks by phase") < page.index("<h2>Findings") < page.index('class="still"')


@pytest.mark.browser
def test_it_is_read_at_once_and_no_sheet_of_paper_has_two_lines(tmp_path):
    file = tmp_path / "report.html"
    file.write_text(html_page(late_every_other_step(tmp_path)), encoding="utf-8")
    with watched_page("file:", width=1280) as watched:
        page = watched.page
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-drawn]", state="attached")
        paints = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        drawn = "performance.getEntriesByName('packed-figures-drawn')[0].startTime"
        # Text and the still timeline do not wait for plotly.
        assert page.evaluate(paints) < page.evaluate(drawn)
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        lines = lines_of_pages(page.pdf(prefer_css_page_size=True))
        assert len(lines) > 1
        assert min(lines) > 2
        assert watched.complaints == []


def late_every_other_step(folder):
    """Two ranks; rank 1 loads data for 13 ms in place of one in every second step."""
    data = np.full((2, 42), 1.0)
    data[1, ::2] = 13.0
    blocked = 1.0 + data.max(axis=0) - data
    parts = {"data": data, "forward": 5.0, "backward": 9.0, "blocked": blocked, "optimizer": 0.5}
    segment = SegmentSpec(parts_ms=parts, num_steps=40)
    return analysis_of(folder / "run", [PassSpec(size=2, segments=(segment,))])


def lines_of_pages(pdf):
    """For each page of a PDF of Chromium, at how many heights text stands."""
    objects = {
        int(number): content
        for number, content in re.findall(rb"(\d+) 0 obj\n(.*?)\nendobj", pdf, re.DOTALL)
    }
    found = []
    for content in objects.values():
        if re.search(rb"/Type\s*/Page\b", content):
            drawing = objects[int(re.search(rb"/Contents (\d+) 0 R", content)[1])]
            start = drawing.index(b"stream\n") + 7
            operators = zlib.decompress(drawing[start : drawing.rindex(b"\nendstream")])
            found.append(len(set(re.findall(rb"([\d.-]+) Tm", operators))))
    return found


@pytest.mark.browser
def test_it_is_legible_in_the_dark(tmp_path):
    file = tmp_path / "report.html"
    file.write_text(html_page(finished_analysis.full_analysis()), encoding="utf-8")
    with watched_page("file:", width=1280, dark=True) as watched:
        watched.page.goto(file.as_uri())
        watched.page.wait_for_selector("#figure-losses .main-svg", state="attached")
        background = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(30, 30, 30)"
        assert serious_violations(watched.page) == []


@pytest.mark.heavy
def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head():
    text = markdown(finished_analysis.full_analysis())

    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1


@pytest.mark.heavy
def test_text_of_logs_means_nothing_in_markdown():
    analysis = finished_analysis.analysis(
        finished_analysis.two_toggles(), failed=(finished_analysis.failed(reason=HOSTILE),)
    )

    assert r"\<script\>alert(1)\</script\> \| \`x\` \[y\](z)" in markdown(analysis)


@pytest.mark.heavy
def test_a_command_that_holds_a_fence_does_not_end_its_own():
    run = finished_analysis.run(manifest=finished_analysis.manifest(command=["sh", "````\n# x"]))
    lines = markdown(finished_analysis.full_analysis(run=run)).splitlines()
    assert lines[-1] == "`````"
    assert lines.count("`````") == 2


@pytest.mark.heavy
def test_of_files_that_no_command_made_no_empty_command_is_shown():
    unknown = finished_analysis.manifest(
        command=[], hvdprof_version="", created_at="", hosts=[], versions={}, settings={}
    )
    analysis = finished_analysis.analysis(
        run=finished_analysis.run(manifest=unknown),
        verdict=finished_analysis.verdict(caveat="Run `hvdprof net`."),
    )
    text, page = markdown(analysis), html_page(analysis)

    assert "```" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "<pre></pre>" not in page
    assert f"Written by hvdprof {__version__}." in page
    assert "Caveat: Run <code>hvdprof net</code>." in page


@pytest.mark.heavy
def test_traces_without_a_command_have_no_empty_block(tmp_path):
    """Of one trace nothing is known about the run; of two, their clocks."""
    paths = write_traces(tmp_path, TracedJob(num_steps=4))
    for given, has_facts in ((paths[:1], False), (paths, True)):
        analysis = analyze_run(load_run(given))
        stream = io.StringIO()
        MarkdownReporter().render(analysis, stream)
        for text in (stream.getvalue(), html_page(analysis)):
            assert ("About the run" in text) == has_facts
        assert "```\n\n```" not in stream.getvalue()
        assert "<pre></pre>" not in html_page(analysis)
