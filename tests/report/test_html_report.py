import io
import re

from hvdprof.report.html_report import html_page
from hvdprof.report.markdown_report import MarkdownReporter
from tests.builders import finished_analysis
from tests.builders.analysis import analysis_of, sweep

HOSTILE = "<script>alert(1)</script> | `x` [y](z)"


def test_the_page_fetches_nothing_and_stays_below_eight_megabytes():
    page = html_page(finished_analysis.full_analysis())

    own = re.sub(r"<script>.*?</script>", "", page, count=1, flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=", own)
    assert len(page.encode()) < 8e6


def test_the_same_analysis_gives_the_same_bytes():
    analysis = finished_analysis.full_analysis()

    assert html_page(analysis) == html_page(analysis)


def test_the_verdict_and_every_figure_are_in_it():
    page = html_page(finished_analysis.full_analysis())

    assert f"<h1>{finished_analysis.SENTENCE}</h1>" in page
    assert 'id="figure-scaling"' in page
    assert 'id="figure-losses"' in page


def test_details_are_shown_where_there_are_data_for_them(tmp_path):
    page = html_page(analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 12.5}, blocked_ms={2: 2.0})))

    assert 'id="figure-lateness"' in page
    assert 'id="figure-parts"' in page
    assert 'id="figure-transfer"' not in page
    assert page.index('id="figure-losses"') < page.index('id="figure-parts"')
    assert page.index('id="figure-parts"') < page.index("<h2>All numbers</h2>")


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


def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head():
    text = markdown(finished_analysis.full_analysis())

    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_text_of_logs_means_nothing_in_markdown():
    analysis = finished_analysis.analysis(
        finished_analysis.two_toggles(), failed=(finished_analysis.failed(reason=HOSTILE),)
    )

    assert r"\<script\>alert(1)\</script\> \| \`x\` \[y\](z)" in markdown(analysis)
