import pytest

from hvdprof.api import load_run
from hvdprof.figures.step_window import step_windows
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
