"""DDP against Horovod in the terminal report."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from hvdprof.report.sections.engines import engine_sections
from hvdprof.report.terminal.section_text import print_section
from tests.analyze.test_engines import both_engines
from tests.builders.analysis import analysis_of, sweep

TEXT = """
DDP against Horovod  mnist on 2 ranks
  DDP is faster; the throughput of DDP is 118.2 % (118.2 to 118.2) of Horovod's. \
Scaling efficiency: Horovod 76.9 ± 1.3 %, DDP 90.9 ± 1.6 %.
  exposed transfer: -2.00 ms (-2.00 to -2.00) per step, DDP minus Horovod
"""


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
