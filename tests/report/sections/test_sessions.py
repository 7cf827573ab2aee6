"""Sessions of an elastic run in the terminal, in Markdown and in HTML."""

import io

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.report.formats import reporter_for
from hvdprof.report.sections.sessions import session_sections
from hvdprof.report.terminal.terminal_report import TerminalReporter
from hvdprof.rundir.manifest import WorkerEnd
from tests.builders.elastic_run import SessionSpec, WorkerSpec, write_elastic_run
from tests.builders.finished_analysis import full_analysis

A = WorkerSpec("localhost", 0, 100, 0)
B = WorkerSpec("node2", 1, 200, 1)


@pytest.fixture(scope="module")
def elastic(tmp_path_factory):
    sessions = [
        SessionSpec(workers=[A], num_steps=40, why="hosts-updated"),
        SessionSpec(workers=[A, B], why="lost-peer", whys={B.pid: ""}, num_committed=25),
        SessionSpec(workers=[A], why="lost-peer"),
    ]
    ends = [WorkerEnd(rank=1, exit_code=137)]
    folder = write_elastic_run(tmp_path_factory.mktemp("run"), sessions, ends)
    return analyze_run(load_run(folder))


def text(analysis, reporter):
    stream = io.StringIO()
    reporter.render(analysis, stream)
    return stream.getvalue()


@pytest.mark.heavy
def test_sessions_and_resets_as_texts(elastic):
    (launch,) = session_sections(elastic)

    assert [row[:4] for row in launch.rows] == [
        ("1", "1", "40", "38"),
        ("2", "2", "30", "28"),
        ("3", "1", "30", "28"),
    ]
    first, second, last = launch.sentences
    assert first.startswith(
        "Reset 1, 1 to 2 ranks: 570 ms without a step (3.00 ms until noticed, 20.0 ms to shut "
        "Horovod down, 500 ms to initialise it again, 40.0 ms for the state, 7.00 ms until "
        "the first step); first steady step after 590 ms; came: rank 1 (node2 slot 1, process 200)"
    )
    assert first.endswith("400 ms from start to initialised.")
    assert "5 steps lost since the last commit (50.0 ms)" in second
    assert second.endswith("gone: rank 1 (node2 slot 1, process 200, ended by SIGKILL).")
    assert last.startswith("At the end: rank 0 (localhost slot 0, process 100")


@pytest.mark.heavy
def test_the_terminal_fits_80_columns(elastic):
    printed = text(elastic, TerminalReporter(width=80))

    section = printed[printed.index("Sessions") : printed.index("Warnings")]
    assert max(map(len, section.splitlines())) <= 80
    assert "a rank was lost" in section


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["report.md", "report.html"])
def test_reports_hold_the_same(elastic, name):
    written = text(elastic, reporter_for(name))

    assert "Sessions" in written
    assert "5 steps lost since the last commit" in written


@pytest.mark.heavy
def test_a_run_that_is_not_elastic_has_no_such_section():
    assert session_sections(full_analysis()) == ()
    assert "Sessions" not in text(full_analysis(), TerminalReporter(width=80))


@pytest.mark.heavy
def test_lost_steps_of_a_session_without_steady_ones_have_no_length(tmp_path):
    sessions = [
        SessionSpec(workers=[A, B], num_steps=2, why="lost-peer", num_committed=0),
        SessionSpec(workers=[A], why="finished"),
    ]
    (launch,) = session_sections(analyze_run(load_run(write_elastic_run(tmp_path, sessions))))
    assert "2 steps lost since the last commit; gone: rank 1" in launch.sentences[0]
