import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES, LOSSES, SCALING
from hvdprof.report.terminal.terminal_report import TerminalReporter
from tests.builders.analysis import analysis_of, sweep
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.run_spec import typical_parts


@pytest.mark.heavy
def test_all_tables_are_as_declared(tmp_path: Path) -> None:
    analysis = analysis_of(tmp_path, sweep({0: 10, 1: 10.5, 2: 12.5}))
    for table, frame in (
        (JOB_STEPS, analysis.job_steps),
        (LAUNCHES, analysis.launches),
        (SCALING, analysis.scaling),
        (LOSSES, analysis.losses),
    ):
        assert list(frame.columns) == table.column_names
        assert len(frame)


@pytest.mark.heavy
def test_a_run_without_anything_has_empty_tables(tmp_path: Path) -> None:
    analysis = analysis_of(tmp_path, [])
    for frame in (analysis.job_steps, analysis.launches, analysis.scaling, analysis.losses):
        assert len(frame) == 0
    assert analysis.warnings == ()


@pytest.mark.heavy
def test_unobserved_blocked_time_is_missing_everywhere(tmp_path: Path) -> None:
    hidden = SegmentSpec(parts_ms=typical_parts(10, blocked_ms=4), seen_inside=False)
    seen = SegmentSpec(model="other", parts_ms=typical_parts(10, blocked_ms=4))
    analysis = analysis_of(tmp_path, [PassSpec(size=2, segments=[hidden, seen])])
    by_model = analysis.run.steps.groupby(
        analysis.run.steps["segment"].astype(str).str.startswith("other")
    )
    assert by_model["blocked_ns"].apply(lambda own: own.isna().all()).tolist() == [True, False]
    rows = analysis.scaling.set_index("model")
    assert rows.loc["mnist", ["blocked_ns", "blocked_share"]].isna().all()
    assert rows.loc["other", "blocked_share"] == pytest.approx(0.4)
    assert rows["samples_per_s"].tolist() == pytest.approx([6400, 6400])
    # Who waited for whom is not known of it, nor does a rank count as never waiting.
    waited = {
        name: set(analysis.table(name)["segment"].astype(str))
        for name in ("caused_wait", "stragglers")
    }
    assert waited == {"caused_wait": {seen.id}, "stragglers": {seen.id}}
    parts = analysis.table("breakdown")
    of_hidden = parts[parts["segment"].astype(str) == hidden.id]
    assert "blocked" not in set(of_hidden["part"].astype(str))
    stream = io.StringIO()
    TerminalReporter().render(analysis, stream)
    assert "nan" not in stream.getvalue().lower()


@pytest.mark.heavy
def test_ranks_that_finished_without_a_recording_are_reported(tmp_path: Path) -> None:
    analysis = analysis_of(tmp_path, [PassSpec(size=2, missing_ranks=[0, 1])])
    assert len(analysis.scaling) == 0
    assert "with 0 of 2" in analysis.warnings[0]
    assert analysis.verdict.sentence.startswith("Nothing was measured")


@pytest.mark.slow
@pytest.mark.parametrize("missing", [[0], [1]])
def test_waiting_for_a_rank_that_did_not_record_is_no_transfer(
    tmp_path: Path, missing: list[int]
) -> None:
    one = [PassSpec(repeat=number) for number in (1, 2)]
    blocked = SegmentSpec(parts_ms=typical_parts(20, blocked_ms=10))
    two = [PassSpec(size=2, repeat=number, segments=[blocked]) for number in (1, 2)]
    for launch in two:
        launch.missing_ranks = missing
    analysis = analysis_of(tmp_path, [*one, *two])
    assert analysis.scaling["efficiency"].iloc[1] == pytest.approx(0.5)
    for name in ("pop", "ceilings", "caused_wait", "stragglers"):
        assert analysis.table(name).empty
    assert set(analysis.table("waterfall")["np"]) == {1}
    assert set(analysis.findings["id"]) == {"input-bound", "outside-phases", "no-rank-evidence"}


@pytest.mark.slow
def test_a_rank_that_did_not_record_in_one_launch_leaves_the_others(tmp_path: Path) -> None:
    passes = [PassSpec(size=size, repeat=number) for size in (1, 2) for number in (1, 2)]
    passes[2].missing_ranks = [1]
    analysis = analysis_of(tmp_path, passes)
    assert set(analysis.table("caused_wait")["pass_id"].astype(str)) == {"04-np2-throughput-r2"}
    assert set(analysis.table("ceilings")["np"]) == {2}


@pytest.mark.heavy
def test_a_single_step_gives_a_number_without_interval(tmp_path: Path) -> None:
    segment = SegmentSpec(num_warmup_batches=0, num_steps=1)
    row = analysis_of(tmp_path, [PassSpec(segments=[segment])]).scaling.iloc[0]
    assert row["samples_per_s"] == pytest.approx(3200)
    assert row[["samples_per_s_low", "samples_per_s_high"]].isna().all()


@pytest.mark.heavy
def test_evaluations_of_all_ranks_are_in_the_verdict_and_the_findings(tmp_path: Path) -> None:
    num_steps, evaluated = 40, [10, 20, 30]
    spec = SegmentSpec(num_warmup_batches=2, num_steps=num_steps - 2)
    parts = {
        name: np.full((2, num_steps), float(length))
        for name, length in typical_parts(10.0, 2.0).items()
    }
    parts["data"][:, evaluated] = [[20.0], [100.0]]
    parts["blocked"][0, evaluated] += 80.0
    folder = write_run(tmp_path, [PassSpec(size=2, segments=[replace(spec, parts_ms=parts)])])
    for path in folder.rglob("recorder/rank-*.jsonl"):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            if line.get("step") in evaluated:
                line["evaluation"] = True
                line["phases"][0][0] = "evaluation"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    analysis = analyze_run(load_run(folder))

    assert set(analysis.findings["id"]) >= {"evaluation-excluded", "evaluation-straggler"}
    assert "straggler in the evaluation (rank 1)" in analysis.verdict.sentence
    assert "of the recorded time and is in no rate or step time" in analysis.verdict.caveat
    stream = io.StringIO()
    TerminalReporter().render(analysis, stream)
    assert "Costs 34" in stream.getvalue()
