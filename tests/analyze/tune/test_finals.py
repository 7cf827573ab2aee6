"""The time per sample of launches, from recorded runs of known steps."""

import math
from pathlib import Path

import pytest

from hvdprof.analyze.tune.finals import log_times
from hvdprof.ingest.load import load_throughput
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run


def launch(repeat: int, *segments: SegmentSpec, size: int = 2) -> PassSpec:
    return PassSpec(size=size, repeat=repeat, segments=list(segments))


def segment(step_ms: float, **fields: object) -> SegmentSpec:
    return SegmentSpec(parts_ms=typical_parts(step_ms), **fields)


@pytest.mark.heavy
def test_each_repeat_has_its_time_per_sample(tmp_path: Path) -> None:
    passes = [launch(1, segment(10.0)), launch(2, segment(20.0, batch_size=64))]
    found = log_times(load_throughput(write_run(tmp_path / "run", passes)))
    assert set(found) == {1, 2}
    assert math.exp(found[1]) == pytest.approx(10e6 / 32, rel=0.01)
    # Twice the samples in twice the time.
    assert found[2] == pytest.approx(found[1], abs=0.01)


@pytest.mark.heavy
def test_models_of_a_launch_count_alike_and_plain_torch_does_not(tmp_path: Path) -> None:
    passes = [
        launch(1, segment(5.0, engine="torch"), size=1),
        launch(1, segment(10.0), segment(40.0, model="vgg16")),
    ]
    found = log_times(load_throughput(write_run(tmp_path / "run", passes)))
    assert math.exp(found[1]) == pytest.approx(20e6 / 32, rel=0.01)


@pytest.mark.heavy
def test_a_repeat_in_which_a_model_failed_does_not_count(tmp_path: Path) -> None:
    failed = segment(40.0, model="vgg16", status="failed", num_steps=0, num_warmup_batches=0)
    passes = [
        launch(1, segment(10.0), segment(40.0, model="vgg16")),
        launch(2, segment(10.0), failed),
    ]
    assert set(log_times(load_throughput(write_run(tmp_path / "run", passes)))) == {1}
