"""What was reported while a job ran, in the section of every report, in JSON and in SQL."""

import io
import json
import types

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.live.job_state import Change
from hvdprof.live.silence import Stalls
from hvdprof.live.watched_job import EventFile
from hvdprof.model.tables.finding_tables import LIVE_EVENTS
from hvdprof.report.formats import reporter_for
from hvdprof.report.sections.live_events import live_sections, session_sections
from hvdprof.report.terminal.terminal_report import TerminalReporter
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import WorkerEnd
from hvdprof.rundir.recording.stall_format import EventKind, EventState
from tests.builders.declared_rows import declared_rows
from tests.builders.elastic_run import SessionSpec, WorkerSpec, write_elastic_run
from tests.builders.finished_analysis import full_analysis
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.cli.test_convert import invoke
from tests.ingest.rundir.test_stall_file import STALL

NOW_S = 1_795_000_000.0

A = WorkerSpec("localhost", 0, 100, 0)
B = WorkerSpec("node2", 1, 200, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    segment = SegmentSpec(parts_ms=typical_parts(40.0))
    folder = write_run(
        tmp_path_factory.mktemp("live") / "run", [PassSpec(size=2, segments=[segment])]
    )
    (record,) = load_run(folder).manifest.passes
    events = EventFile(RunPaths(folder).of_pass(record.id).events)
    name = record.segments[0].segment.id
    for state, step in ((EventState.BEGUN, 4), (EventState.OVER, 28)):
        where = {"segment": name, "step": step, "ranks": (1,), "host": "node1", "phase": "data"}
        more = {"cost_s": 0.0031, "step_s": 0.05} if state == EventState.BEGUN else {}
        change = Change(
            kind=EventKind.STRAGGLER,
            state=state,
            since_s=NOW_S + (240 if state == EventState.OVER else 0),
            time_s=NOW_S + 10 * step,
            text="Rank 1 is slow.",
            **where,
            **more,
        )
        events.take(change, NOW_S + 1000, "crop.py:41 (crop)")
    return folder


def test_what_ranks_answered_and_what_comes_once_are_shown():
    more = {"pass_id": "01", "event": "straggler", "rank": 1, "share": 0.61, "files": "a.jsonl, b"}
    once = {"pass_id": "01", "event": "evaluation", "rank": -1, "cost_ns": 28_000_000_000}
    grows = {**more, "event": "memory-grows", "files": "", "text": "The memory grows by 5 MB."}
    events = declared_rows(LIVE_EVENTS, {**more, "place": "crop.py:41"}, once, grows)
    (section,) = live_sections(types.SimpleNamespace(table={LIVE_EVENTS.name: events}.get))
    rows = {row[1]: row for row in section.rows}
    assert rows["straggler"][2].endswith("crop.py:41: 61 % of samples")
    assert rows["evaluation"][4] == "28.0 s once"
    assert sum(text.endswith(": The memory grows by 5 MB.") for text in section.sentences) == 1
    (answers,) = (text for text in section.sentences if text.startswith("Files of"))
    assert answers.endswith("in passes/01/recorder: a.jsonl, b.")


def test_the_section_says_where_how_long_and_at_which_cost(folder):
    (section,) = live_sections(analyze_run(load_run(folder)))
    (row,) = section.rows
    assert row[1:5] == (
        "straggler",
        "rank 1 (node1), data phase, crop.py:41 (crop)",
        "4 min",
        "3.10 ms",
    )
    assert row[6] == "refuted"
    assert section.sentences == (
        "1 of 1 named straggler refuted: the recorded steps show less than 5 % of a step of "
        "lateness.",
    )


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_every_report_has_it(folder, form):
    stream = io.StringIO()
    reporter_for(form).render(analyze_run(load_run(folder)), stream)
    assert "Seen while the job ran" in stream.getvalue()


def test_sql_has_the_table(folder):
    query = "select outcome, over_ns - since_ns as ns from live_events"
    lines = invoke("sql", folder, query, "--format", "csv").stdout.splitlines()
    assert lines[-1] == "refuted,240000000000"


def test_json_has_its_rows_as_the_manual_names_them(folder):
    stream = io.StringIO()
    reporter_for("json").render(analyze_run(load_run(folder)), stream)
    (row,) = json.loads(stream.getvalue())["tables"]["live_events"]
    assert list(row) == LIVE_EVENTS.column_names
    assert (row["event"], row["rank"], row["outcome"]) == ("straggler", 1, "refuted")
    assert (row["seen_ns"], row["over_ns"] - row["since_ns"]) == (
        round((NOW_S + 40) * 1e9),
        240 * 10**9,
    )


def test_the_end_of_a_stall_is_that_of_its_hang(tmp_path):
    """The watcher was ended during the hang; the steps went on."""
    folder = write_run(tmp_path / "run", [PassSpec(size=2)])
    (record,) = load_run(folder).manifest.passes
    paths = RunPaths(folder).of_pass(record.id)
    stall = STALL | {"segment": record.segments[0].segment.id}
    over = {"kind": "over", "number": 0, "lasted_s": 75.0}
    paths.stalls.write_text(f"{json.dumps(stall)}\n")
    (hang,) = Stalls(paths.stalls).look()
    assert EventFile(paths.events).take(hang, NOW_S) is not None
    (section,) = live_sections(analyze_run(load_run(folder)))
    assert section.rows[0][3] == "no end seen"
    with paths.stalls.open("a") as file:
        file.write(json.dumps(over) + "\n")
    (section,) = live_sections(analyze_run(load_run(folder)))
    assert section.rows[0][3] == "1 min 15 s"


def test_nothing_is_shown_of_a_run_without_a_watcher(tmp_path):
    folder = write_run(tmp_path / "run", [PassSpec(size=2)])
    assert live_sections(analyze_run(load_run(folder))) == ()


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
