import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.load import load_run
from hvdprof.report.terminal.terminal_report import TerminalReporter
from tests.builders.phase_logs import write_phase_logs

NUM_STEPS = 60


def usual(num_ranks: int) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    return 10 + np.random.default_rng(1).normal(0, 0.3, (num_ranks, NUM_STEPS))


def test_steps_and_phases_are_those_of_the_log(tmp_path: Path) -> None:
    write_phase_logs(tmp_path, [[10.0] * 5, [30.0] * 5])
    run = load_run([tmp_path])
    steps = run.steps[run.steps["step"] == 3].set_index("rank")
    assert list(run.ranks["hostname"]) == ["node1"] * 2
    assert list(run.ranks["clock_method"]) == ["same-clock"] * 2
    assert steps["dur_ns"].to_dict() == {0: 120_000_000, 1: 120_000_000}
    assert steps["data_ns"].to_dict() == {0: 10_000_000, 1: 30_000_000}
    assert steps["blocked_ns"].to_dict() == {0: 20_000_000, 1: 1}
    assert steps["backward_ns"].to_dict() == {0: 80_000_000, 1: 79_999_999}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rank", "every", "extra_ms", "sentence", "truth_ms"),
    [
        (2, 1, 25.0, "Largest loss: straggler (rank 2, data phase), ", 25.0),
        (1, 10, 250.0, "Largest loss: rank 1 late every 10 steps, data phase, ", 25.0),
    ],
)
def test_a_rank_with_slow_input_is_the_straggler(
    rank: int, every: int, extra_ms: float, sentence: str, truth_ms: float, tmp_path: Path
) -> None:
    data = usual(4)
    data[rank, ::every] += extra_ms
    write_phase_logs(tmp_path, data.tolist())
    analysis = analyze_run(load_run([tmp_path]))
    assert sentence in analysis.verdict.sentence
    cost = analysis.table("rank_costs")
    own = cost[cost["rank"] == rank]["cost_ns"].sum() / 1e6
    assert own == pytest.approx(truth_ms, rel=0.2)
    assert any("The logs hold no waits" in note.text for note in analysis.verdict.caveats)


@pytest.mark.heavy
def test_the_page_offers_no_run_directory_of_phase_logs(tmp_path: Path) -> None:
    write_phase_logs(tmp_path, usual(2).tolist())
    shown = io.StringIO()
    TerminalReporter().render(analyze_run(load_run([tmp_path])), shown)
    assert "2 torchtitan phase logs" in shown.getvalue()
    assert "hvdprof attach" not in shown.getvalue()


@pytest.mark.heavy
def test_equal_ranks_have_no_straggler(tmp_path: Path) -> None:
    write_phase_logs(tmp_path, usual(4).tolist())
    analysis = analyze_run(load_run([tmp_path]))
    assert "No single loss stands out." in analysis.verdict.sentence
    assert analysis.table("stragglers")["cost_share"].max() < 0.01


@pytest.mark.heavy
def test_without_a_rank_nobody_is_said_to_wait(tmp_path: Path) -> None:
    data = usual(4)
    data[2] += 25
    write_phase_logs(tmp_path, data.tolist())[1].unlink()
    run = load_run([tmp_path])
    assert run.steps["blocked_ns"].isna().all()
    analysis = analyze_run(run)
    assert "ranks 0, 2 and 3 of 4" in analysis.verdict.sentence
    assert "straggler" not in analysis.verdict.sentence
    assert any("Wait attribution unavailable" in note.text for note in analysis.verdict.caveats)


@pytest.mark.heavy
def test_ranks_of_two_hosts_need_no_common_clock(tmp_path: Path) -> None:
    data = usual(2)
    data[1] += 25
    write_phase_logs(tmp_path, data.tolist(), hosts=["node1", "node2"])
    run = load_run([tmp_path])
    assert list(run.ranks["clock_method"]) == ["wall-clock"] * 2
    assert "straggler (rank 1, data phase)" in analyze_run(run).verdict.sentence


def test_of_two_logs_of_a_rank_the_later_counts(tmp_path: Path) -> None:
    paths = write_phase_logs(tmp_path, [[10.0] * 5] * 2)
    older = paths[0].with_name("training.global_rank_0.20260630-000000-AAAAAA.jsonl")
    lines = [json.loads(line) for line in paths[0].read_text().splitlines()]
    older.write_text(
        "".join(json.dumps(line | {"time_us": line["time_us"] - 10**9}) + "\n" for line in lines)
    )
    run = load_run([tmp_path])
    left_out = run.table("files").set_index("file")["left_out"]
    assert [str(name).rpartition("/")[2] for name, why in left_out.items() if why] == [older.name]


def test_logs_of_two_jobs_are_refused(tmp_path: Path) -> None:
    write_phase_logs(tmp_path / "one", [[10.0] * 5] * 2)
    write_phase_logs(tmp_path / "two", [[10.0] * 5] * 3)
    with pytest.raises(UnreadableInputError, match="of 2 jobs"):
        load_run([tmp_path])


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) * 2 // 3],
        lambda text: text.replace('"time_us"', '"tame_us"', 40).replace("tame", "time", 1),
        lambda text: text + '{"log_type_name": "step_end", "time_us": "late"}\n',
        lambda text: text.replace("\n", '\n{"torn": \n', 3),
        lambda text: text.replace('"value": 30.0', '"value": 1e30', 1),
        lambda text: text.replace('"value": 30.0', '"value": -3.0', 1),
    ],
)
def test_damaged_lines_cost_their_steps_alone(damage: Callable[[str], str], tmp_path: Path) -> None:
    paths = write_phase_logs(tmp_path, [[10.0] * 9, [30.0] * 9])
    paths[1].write_text(damage(paths[1].read_text()))
    run = load_run([tmp_path])
    assert set(run.steps["dur_ns"]) == {120_000_000}
    assert run.steps.groupby("step")["rank"].nunique().eq(2).all()


def test_a_log_without_a_step_is_refused(tmp_path: Path) -> None:
    (path, _) = write_phase_logs(tmp_path, [[10.0] * 2] * 2)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    with pytest.raises(UnreadableInputError, match="no whole step"):
        load_run([path])
