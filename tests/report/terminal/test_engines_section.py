"""DDP against Horovod in the terminal report."""

import io

import pytest
from rich.console import Console

from hvdprof.report.terminal.engines_section import print_engines, shape_engines
from tests.analyze.test_engines import both_engines
from tests.builders.analysis import analysis_of, sweep

TEXT = """
DDP against Horovod
  mnist on 2 ranks: Horovod 76.9 ± 1.3 % and DDP 90.9 ± 1.6 % efficient; the throughput of DDP is \
118.2 % (118.2 to 118.2) of Horovod's: DDP is faster.
    exposed transfer: -2.00 ms (-2.00 to -2.00) per step, DDP minus Horovod
"""


def printed(analysis) -> str:
    stream = io.StringIO()
    print_engines(Console(file=stream, width=200), shape_engines(analysis))
    return stream.getvalue()


@pytest.mark.slow
def test_who_is_faster_by_how_much_and_by_what(tmp_path):
    assert printed(analysis_of(tmp_path, both_engines())) == TEXT


def test_nothing_is_printed_without_ddp(tmp_path):
    assert printed(analysis_of(tmp_path, sweep({0: 10, 1: 10, 2: 12}))) == ""


def test_intervals_that_are_not_known_are_not_called_chance(tmp_path):
    first = [launch for launch in both_engines() if launch.repeat == 1]
    lines = printed(analysis_of(tmp_path, first)).splitlines()
    assert "not comparable, measured in fewer than two repeats" in lines[2]
    assert lines[3:] == []
