""""""

import numpy as np
import pandas as pd
import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.figures.launch import num_steady
from hvdprof.figures.typical_step import (
    MOST_COLUMNS,
    _columns,
    acting_steps,
    run_strip,
    step_windows,
    typical_step,
)
from hvdprof.model.causes import EXPOSED_TRANSFER, JITTER
from hvdprof.report.screen.tiles import verdict_cell
from tests.builders.analysis import analysis_of, sweep
from tests.builders.recorded_runs import unpacked
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run


def test_steps_of_two_segments_of_one_pass_are_distinguished(tmp_path):
    segments = [SegmentSpec(model=model, num_steps=5) for model in ("mnist", "resnet18")]
    run = load_run(write_run(tmp_path / "run", [PassSpec(size=2, segments=segments)]))
    launches = list(
        run.segments[["pass_id", "segment"]].astype(str).itertuples(index=False, name=None)
    )
    first, second = (step_windows(run, launch, [3])[3] for launch in launches)
    # Steps of 10 ms, a tenth of a step more on both sides; step 3 begins after three of them.
    assert first == pytest.approx((29e6, 41e6), abs=1e6)
    assert second[0] > 7 * 10e6
    assert second[1] - second[0] == pytest.approx(12e6, abs=1e3)


def test_steps_that_are_not_there_are_left_out(tmp_path):
    run = load_run(write_run(tmp_path / "run", [PassSpec(segments=[SegmentSpec(num_steps=5)])]))
    launch = (str(run.segments["pass_id"].iloc[0]), str(run.segments["segment"].iloc[0]))
    assert step_windows(run, launch, [99, -1]) == {}
    assert step_windows(run, ("elsewhere", "x"), [1]) == {}


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """Rank 1 is 3 ms slower in forward; in step 40 rank 0 is last, in the longest step."""
    forward = np.full((2, 62), 5.0)
    forward[1] += 3.0
    forward[0, 40] += 20.0
    parts = {
        "forward": forward,
        "backward": 4.0,
        "blocked": forward.max(axis=0) - forward + 1.0,
        "optimizer": 0.5,
    }
    plain = SegmentSpec(parts_ms=parts)
    traced = SegmentSpec(parts_ms=parts, timeline=True)
    passes = [PassSpec(size=2, repeat=repeat, segments=[plain]) for repeat in (1, 2)]
    passes.append(PassSpec(size=2, mode="trace", segments=[traced]))
    return analysis_of(tmp_path_factory.mktemp("uneven") / "run", [*sweep({0: 9.5}), *passes])


def rows(analysis, rule):
    return [row for row in analysis.findings.to_dict("records") if row["id"] == rule]


def last_rank(analysis, launch, step):
    late = analysis.table("lateness")
    own = late[(late["pass_id"] == launch[0]) & (late["step"] == step)]
    return int(own.loc[own["lateness_ns"].idxmax(), "rank"])


@pytest.mark.heavy
def test_a_straggler_is_shown_where_its_own_rank_is_last(uneven):
    (found,) = rows(uneven, "persistent-straggler")
    launch, step = typical_step(uneven, found)
    assert launch[0].endswith("np2-trace-r1")
    assert step != 40
    assert last_rank(uneven, launch, step) == 1


@pytest.mark.heavy
def test_a_finding_on_no_cause_is_shown_in_a_step_of_median_length(uneven):
    found = rows(uneven, "persistent-straggler")[0] | {"cause_id": ""}
    launch, step = typical_step(uneven, found)
    steps = uneven.job_steps
    own = steps[(steps["pass_id"] == launch[0]) & steps["steady"]]
    length = float(own.loc[own["step"] == step, "dur_ns"].iloc[0])
    assert length == pytest.approx(own["dur_ns"].median(), rel=0.01)


@pytest.mark.heavy
@pytest.mark.parametrize("values", [{"np": 3}, {"engine": "ddp"}, {"model": "other"}])
def test_a_cell_without_steps_has_none(uneven, values):
    assert typical_step(uneven, rows(uneven, "persistent-straggler")[0] | values) is None


@pytest.mark.parametrize("name", ["horovod-slow-data", "ddp-alone-pauses"])
def test_the_strip_marks_the_steps_of_the_cause(tmp_path, name):
    analysis = analyze_run(load_run(unpacked(name, tmp_path)))
    strip = run_strip(analysis, verdict_cell(analysis))
    acting = [one for one in strip.columns if one.acts]
    assert 0 < len(acting) <= sum(one.steady for one in strip.columns)
    assert all(strip.sentence.split(" acts in ")[0] in one.text for one in acting)
    assert f"acts in {len(acting)} of " in strip.sentence
    # The warm-up is in the strip, and says that it is.
    warm = [one for one in strip.columns if not one.steady]
    assert warm and all(one.text.endswith(", excluded: warm-up") for one in warm)
    assert num_steady(strip.steps.table) < strip.steps.num_steps
    assert max(one.height for one in strip.columns) == 1.0


def test_a_cause_that_no_single_step_shows_marks_none(tmp_path):
    analysis = analyze_run(load_run(unpacked("horovod-slow-data", tmp_path)))
    launch = run_strip(analysis, verdict_cell(analysis)).steps.launch
    for term in (JITTER, EXPOSED_TRANSFER):
        assert not acting_steps(analysis, launch, {"term": term, "rank": None, "ranks": ""})


def test_windows_of_a_light_recording_are_not_called_steps(tmp_path):
    analysis = analyze_run(load_run(unpacked("ddp-light-slow-update", tmp_path)))
    strip = run_strip(analysis, verdict_cell(analysis))
    assert not strip.sentence or strip.sentence.endswith((" window", " windows"))
    assert sum(one.size for one in strip.columns) == strip.steps.num_steps
    wide = next(one for one in strip.columns if one.size > 1)
    assert f"steps {wide.step} to {wide.step + wide.size - 1}, mean: " in wide.text


def test_many_steps_share_columns_and_the_longest_of_each_is_shown():
    step = np.arange(1_000)
    table = pd.DataFrame({"step": step, "steady": step >= 5, "why": "warm-up", "num_steps": 1})
    table["dur_ns"] = np.where(step == 503, 2e6, 1e6)
    columns = _columns(table, frozenset({503}), "pause")
    assert len(columns) == MOST_COLUMNS
    assert [(one.step, one.height, one.text) for one in columns if one.acts] == [
        (503, 1.0, "step 503: 2.00 ms, pause")
    ]
    assert columns[0].text.endswith(", excluded: warm-up")
    assert not columns[0].steady
