""""""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run
from hvdprof.report.document.html_report import HtmlReporter
from hvdprof.report.document.markdown_report import MarkdownReporter
from hvdprof.report.sections.network import engine_sections, network_sections
from hvdprof.report.terminal.section_text import print_section
from hvdprof.report.terminal.terminal_report import TerminalReporter
from tests.analyze.test_engines import both_engines
from tests.builders.analysis import analysis_of, sweep
from tests.builders.finished_analysis import full_analysis
from tests.builders.net_recording import link, of_hosts
from tests.builders.run_directory import write_run
from tests.builders.two_host_run import two_host_run

TEXT = """
DDP against Horovod  mnist on 2 ranks
  DDP is faster; the throughput of DDP is 118.2 % (118.2 to 118.2) of Horovod's. \
Scaling efficiency: Horovod 76.9 ± 1.3 %, DDP 90.9 ± 1.6 %.
  exposed transfer: -2.00 ms (-2.00 to -2.00) per step, DDP minus Horovod
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return analyze_run(load_run(two_host_run(tmp_path_factory.mktemp("two") / "run")))


def text_of(reporter, analysis):
    stream = io.StringIO()
    reporter.render(analysis, stream)
    return stream.getvalue()


@pytest.mark.slow
def test_links_are_rows_and_their_use_a_sentence(measured):
    (section,) = network_sections(measured)
    assert [row[:2] for row in section.rows] == [
        ("TCP", "h2 - h1"),
        ("Horovod", "h1 - h2"),
        ("allreduce", "all 2 hosts"),
    ]
    assert section.rows[0][3].startswith("12.0")
    assert section.rows[0][4].startswith("0.050")
    assert section.rows[0][5].startswith("83.3")
    (sentence,) = section.sentences
    assert sentence.startswith("Large allreduces of 2 ranks reach 8.9")
    assert "(4.00 MB each), 89." in sentence or "(4.00 MB each), 90." in sentence
    assert sentence.endswith("that the hosts gave before the run.")


@pytest.mark.heavy
@pytest.mark.parametrize("width", [80, 132])
def test_the_terminal_shows_them_in_its_width(measured, width):
    text = text_of(TerminalReporter(width), measured)
    lines = text.splitlines()
    assert "Network between the hosts" in lines
    assert max(map(len, lines[lines.index("Network between the hosts") :])) <= width + 60
    block = lines[lines.index("Network between the hosts") :][:9]
    assert max(map(len, block)) <= width
    assert any(line.split()[:4] == ["TCP", "h2", "-", "h1"] for line in block)
    assert "error, likely: Network-bound transfers between 2 hosts" in text
    assert "The network between the hosts limits them." in " ".join(text.split())


@pytest.mark.heavy
def test_markdown_and_html_hold_alpha_and_beta_too(measured):
    markdown = text_of(MarkdownReporter(), measured)
    assert "### Network between the hosts" in markdown
    assert "| allreduce | all 2 hosts |" in markdown
    html = text_of(HtmlReporter(), measured)
    assert "beta, ms/MB" in html
    assert "Bandwidth between the hosts" in html


@pytest.mark.heavy
def test_of_many_pairs_the_slowest_and_their_number_are_printed(tmp_path):
    write_run(tmp_path, [])
    of_hosts([1e8, 1e8, 1e8, 2e7]).write(tmp_path)
    (section,) = network_sections(analyze_run(load_run(tmp_path)))
    assert {row[1] for row in section.rows} == {"h1 - h4", "h2 - h4", "h3 - h4"}
    assert section.sentences == (
        "TCP: the slowest 3 of 6 pairs, median 60.0 MB/s, fastest 100 MB/s.",
    )


@pytest.mark.slow
def test_the_reason_for_unknown_link_use_is_printed(tmp_path):
    few = link("allreduce", alpha_ns=1000, bytes_per_s=1e9, ends=None)[:2]
    tcp = link("tcp", alpha_ns=50_000, bytes_per_s=12e6, ends=(1, 0))
    (section,) = network_sections(
        analyze_run(load_run(two_host_run(tmp_path, records=[*tcp, *few])))
    )
    assert section.sentences == (
        "Share of the network that 2 ranks use: unknown (the measured allreduce has no fit: only 2 "
        "different payloads).",
    )


@pytest.mark.heavy
def test_nothing_is_said_of_a_network_that_was_not_measured():
    assert network_sections(full_analysis()) == ()
    assert "Network between" not in text_of(TerminalReporter(80), full_analysis())
    assert "Network between" not in text_of(HtmlReporter(), full_analysis())


def printed(analysis) -> str:
    stream = io.StringIO()
    for section in engine_sections(analysis):
        print_section(Console(file=stream, width=200), section)
    return stream.getvalue()


@pytest.mark.slow
def test_who_is_faster_by_how_much_and_by_what(tmp_path):
    assert printed(analysis_of(tmp_path, both_engines())) == TEXT


@pytest.mark.heavy
def test_nothing_is_printed_without_ddp(tmp_path):
    assert printed(analysis_of(tmp_path, sweep({0: 10, 1: 10, 2: 12}))) == ""


@pytest.mark.heavy
def test_intervals_that_are_not_known_are_not_called_chance(tmp_path):
    first = [launch for launch in both_engines() if launch.repeat == 1]
    text = printed(analysis_of(tmp_path, first))
    assert "Not comparable (measured in fewer than two repeats" in text
    assert "per step" not in text


@pytest.mark.slow
def test_an_interval_on_both_sides_is_undecided_and_a_baseline_has_no_efficiency(tmp_path):
    launches = [launch for launch in both_engines() if launch.size == 2]
    swapped = {"horovod": "ddp", "ddp": "horovod"}
    for place in (2, 3):
        (own,) = launches[place].segments
        other = replace(own, engine=swapped[own.engine])
        launches[place] = replace(launches[place], segments=[other])
    text = printed(analysis_of(tmp_path, launches))
    assert "Undecided (the interval contains both a gain and a loss" in text
    assert "efficiency" not in text
