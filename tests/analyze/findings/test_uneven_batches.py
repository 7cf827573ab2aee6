from pathlib import Path

import numpy as np
import pytest

from hvdprof.model.run import RunAnalysis
from tests.builders.analysis import analysis_of
from tests.builders.finding_style import style_faults
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts

NUM_STEPS = 30


def uneven_run(folder: Path, samples: np.ndarray, scale: np.ndarray) -> RunAnalysis:
    """Two ranks whose forward and backward take ``scale`` [ranks, steps] times as long."""
    parts = {name: np.full((2, 32), float(ms)) for name, ms in typical_parts(50.0, 2.0).items()}
    for name in ("forward", "backward"):
        parts[name] = parts[name] * scale
    own = sum(times for name, times in parts.items() if name != "blocked")
    parts["blocked"] = 2.0 + own.max(axis=0) - own
    spec = SegmentSpec(num_steps=NUM_STEPS, parts_ms=parts, samples=samples)
    return analysis_of(folder, [PassSpec(size=2, segments=[spec])])


def finding(analysis: RunAnalysis, id_: str) -> dict[str, object]:
    (row,) = analysis.findings[analysis.findings["id"] == id_].to_dict("records")
    return {str(name): value for name, value in row.items()}


@pytest.mark.heavy
def test_a_rank_with_larger_batches_gets_even_batches_as_its_fix(tmp_path: Path) -> None:
    samples = np.array([[32], [96]]) * np.ones((2, 32), dtype=np.int64)
    row = finding(uneven_run(tmp_path, samples, samples / 32), "persistent-straggler")
    assert (
        "Rank 1 trains 96 samples per step, the others 32 (mean). Time per sample is like that of "
        "the others." in str(row["evidence"])
    )
    assert str(row["action"]).startswith("Give all ranks batches of the same number of samples")
    assert style_faults(row) == []


@pytest.mark.heavy
def test_a_rank_that_is_slower_per_sample_says_so(tmp_path: Path) -> None:
    samples = np.array([[32], [48]]) * np.ones((2, 32), dtype=np.int64)
    row = finding(uneven_run(tmp_path, samples, np.array([[1.0], [3.0]])), "persistent-straggler")
    assert "Time per sample is 2.0 times that of the others." in str(row["evidence"])


@pytest.mark.heavy
def test_a_slow_rank_with_batches_like_the_others_has_no_such_fix(tmp_path: Path) -> None:
    samples = np.full((2, 32), 32)
    row = finding(uneven_run(tmp_path, samples, np.array([[1.0], [3.0]])), "persistent-straggler")
    assert "samples" not in str(row["evidence"])


@pytest.mark.heavy
def test_jitter_of_batches_that_vary_says_by_how_much(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(16, 64, (2, 32))
    row = finding(uneven_run(tmp_path, samples, samples / 32), "rotating-stragglers")
    assert "Batches differ: the largest of a step has" in str(row["evidence"])
