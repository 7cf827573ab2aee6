"""Sessions and resets of elastic runs with known truth."""

import json

import pandas as pd
import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.notes import texts
from hvdprof.rundir.manifest import WorkerEnd
from tests.builders.elastic_run import (
    LAUNCH,
    PIECES_MS,
    SessionSpec,
    WorkerSpec,
    write_elastic_run,
)

A = WorkerSpec("localhost", 0, 100, 0)
B = WorkerSpec("localhost", 1, 200, 1)
C = WorkerSpec("node2", 0, 300, 1)


def analysed(folder, sessions, ends=()):
    return analyze_run(load_run(write_elastic_run(folder, sessions, ends)))


@pytest.fixture
def grown(tmp_path):
    return analysed(
        tmp_path,
        [
            SessionSpec(workers=[A], num_steps=40, step_ms=10, why="hosts-updated"),
            SessionSpec(workers=[A, B], num_steps=50, step_ms=12.5),
        ],
    )


@pytest.mark.heavy
def test_each_size_is_a_cell_of_its_own(grown):
    cells = grown.scaling.set_index("np")

    assert list(cells.index) == [1, 2]
    assert cells.loc[2, "efficiency"] == pytest.approx(0.8)
    assert cells.loc[2, "num_steps"] == 48
    assert grown.verdict.sentence.startswith("train on 2 ranks: 80.0")


@pytest.mark.heavy
def test_sessions_say_who_came_and_why_they_ended(grown):
    sessions = grown.table("sessions")

    assert sessions["np"].tolist() == [1, 2]
    assert sessions["num_steps"].tolist() == [40, 50]
    assert sessions["num_steady_steps"].tolist() == [38, 48]
    assert sessions["ended"].tolist() == ["hosts-updated", "finished"]
    assert sessions["came"].tolist() == ["", "rank 1 (localhost slot 1, process 200)"]
    assert sessions["gone"].tolist() == ["", ""]


@pytest.mark.heavy
def test_a_reset_costs_what_lies_between_the_steps(grown):
    (reset,) = grown.table("resets").to_dict("records")

    assert reset["stopped_ns"] == sum(PIECES_MS.values()) * 1e6
    # Two steps of warm-up.
    assert reset["until_steady_ns"] == reset["stopped_ns"] + 2 * 12.5e6
    for piece, length_ms in PIECES_MS.items():
        assert reset[f"{piece}_ns"] == length_ms * 1e6, piece
    assert reset["worker_start_ns"] == 400e6
    assert (reset["lost_steps"], reset["lost_ns"]) == (0, 0)
    assert (reset["np_before"], reset["np_after"], reset["cause"]) == (1, 2, "hosts-updated")
    assert reset["came"] == "rank 1 (localhost slot 1, process 200)"


@pytest.mark.heavy
def test_a_rank_that_was_killed_is_named_with_its_signal_and_the_steps_it_cost(tmp_path):
    analysis = analysed(
        tmp_path,
        [
            SessionSpec(
                workers=[A, C],
                num_steps=33,
                step_ms=10,
                why="lost-peer",
                whys={C.pid: ""},
                num_committed=30,
            ),
            SessionSpec(workers=[A], num_steps=20),
        ],
        [WorkerEnd(rank=1, exit_code=137)],
    )

    (reset,) = analysis.table("resets").to_dict("records")
    assert reset["cause"] == "worker-lost"
    assert reset["gone"] == "rank 1 (node2 slot 0, process 300, ended by SIGKILL)"
    assert (reset["lost_steps"], reset["lost_ns"]) == (3, 30e6)
    assert pd.isna(reset["worker_start_ns"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("why", "code", "reported"),
    [
        ("", 7, ", exit code 7"),
        ("raised", 1, ", exit code 1"),
        ("raised", None, ", raised"),
        ("", None, ", ended without a message"),
        ("hosts-updated", None, ", removed"),
        ("hosts-updated", 134, ", removed"),
    ],
)
def test_how_a_worker_went(tmp_path, why, code, reported):
    analysis = analysed(
        tmp_path,
        [
            SessionSpec(workers=[A, C], why="lost-peer", whys={C.pid: why}),
            SessionSpec(workers=[A]),
        ],
        [] if code is None else [WorkerEnd(rank=1, exit_code=code)],
    )

    assert analysis.table("sessions")["gone"].iloc[0].endswith(f"process 300{reported})")


@pytest.mark.heavy
def test_the_last_line_of_a_worker_is_reported(tmp_path):
    analysis = analysed(
        tmp_path,
        [
            SessionSpec(workers=[A, C], why="lost-peer", whys={C.pid: "raised"}),
            SessionSpec(workers=[A]),
        ],
        [WorkerEnd(rank=1, exit_code=1, lines=["Traceback", "RuntimeError: on purpose"])],
    )

    gone = analysis.table("sessions")["gone"].iloc[0]
    assert gone.endswith("exit code 1: RuntimeError: on purpose)")


@pytest.mark.heavy
def test_workers_with_the_same_first_rank_take_their_exit_codes_in_turn(tmp_path):
    analysis = analysed(
        tmp_path,
        [
            SessionSpec(workers=[A, B], why="lost-peer", whys={B.pid: ""}),
            SessionSpec(workers=[A, C], why="lost-peer", whys={C.pid: ""}),
            SessionSpec(workers=[A]),
        ],
        [WorkerEnd(rank=1, exit_code=9), WorkerEnd(rank=1, exit_code=139)],
    )

    first, second, _ = analysis.table("sessions")["gone"]
    assert first == "rank 1 (localhost slot 1, process 200, exit code 9)"
    assert second == "rank 1 (node2 slot 0, process 300, ended by SIGSEGV)"


@pytest.mark.heavy
def test_a_job_without_survivors_names_the_last_workers(tmp_path):
    analysis = analysed(tmp_path, [SessionSpec(workers=[A, B], why="")])

    assert analysis.table("sessions")["ended"].tolist() == ["unknown"]
    assert analysis.table("sessions")["gone"].iloc[0].count("ended without a message") == 2
    assert analysis.table("resets").empty


@pytest.mark.heavy
def test_without_a_survivor_the_cost_is_not_known(tmp_path):
    analysis = analysed(
        tmp_path, [SessionSpec(workers=[A], why="lost-peer"), SessionSpec(workers=[C])]
    )

    (reset,) = analysis.table("resets").to_dict("records")
    assert pd.isna(reset["stopped_ns"])
    assert pd.isna(reset["until_steady_ns"])


@pytest.mark.heavy
def test_a_session_without_a_step_leaves_its_cost_open(tmp_path):
    analysis = analysed(
        tmp_path,
        [
            SessionSpec(workers=[A], why="hosts-updated"),
            SessionSpec(workers=[A, B], num_steps=0, why="hosts-updated"),
            SessionSpec(workers=[A]),
        ],
    )

    assert analysis.table("sessions")["num_steps"].tolist() == [30, 0, 30]
    assert analysis.table("resets")["stopped_ns"].isna().tolist() == [True, True]


@pytest.mark.heavy
def test_only_so_many_workers_are_named(tmp_path):
    many = [WorkerSpec("node2", slot, 1000 + slot, slot) for slot in range(1, 20)]
    analysis = analysed(
        tmp_path, [SessionSpec(workers=[A], why="hosts-updated"), SessionSpec(workers=[A, *many])]
    )

    assert analysis.table("sessions")["came"].iloc[1].endswith("and 11 more")


@pytest.mark.heavy
def test_a_run_that_is_not_elastic_has_no_sessions(tmp_path):
    from tests.builders.run_directory import PassSpec, SegmentSpec, write_run

    analysis = analyze_run(load_run(write_run(tmp_path, [PassSpec(segments=[SegmentSpec()])])))

    assert analysis.table("sessions").empty
    assert analysis.table("resets").empty


def test_damaged_lines_of_a_session_are_reported(tmp_path):
    folder = write_elastic_run(tmp_path, [SessionSpec(workers=[A])])
    path = folder / "passes" / f"{LAUNCH}-session1" / "recorder" / "rank-0.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[2]["entered_ns"] = "soon"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    run = load_run(folder)
    assert run.table("session_ranks").empty
    assert any("1 damaged lines" in note for note in texts(run.notes))


@pytest.mark.heavy
def test_two_names_of_one_machine_are_no_finding(tmp_path):
    other = WorkerSpec("127.0.0.1", 0, 200, 1)
    analysis = analysed(tmp_path, [SessionSpec(workers=[A, other])])

    assert "same-hostname" not in set(analysis.findings["id"].astype(str))
