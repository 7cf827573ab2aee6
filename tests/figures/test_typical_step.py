import numpy as np
import pytest

from hvdprof.api import load_run
from hvdprof.figures.typical_step import step_windows, typical_step
from tests.builders.analysis import analysis_of, sweep
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
