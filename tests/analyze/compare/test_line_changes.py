import numpy as np
import pytest

from hvdprof.analyze.compare.comparison import compare_sides, side_of_run
from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run
from hvdprof.model.results.comparison import Rules
from hvdprof.report.comparison.comparison_page import line_texts
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.sampled_lines import with_samples

BEFORE, AFTER = ("/old/transforms.py", 41, "crop"), ("/new/transforms.py", 44, "crop")


def run_of(folder, data_ms, line, *, repeats=3, seed=0):
    """A run of two ranks whose data phase is spent on one line."""
    parts = {**typical_parts(60.0, 2.0), "data": data_ms}
    segment = SegmentSpec(parts_ms=parts, num_steps=150)
    specs = [
        PassSpec(size=2, repeat=repeat, segments=[segment]) for repeat in range(1, repeats + 1)
    ]
    run = load_run(write_run(folder, specs))
    return analyze_run(
        with_samples(run, line, lambda _, phase, *__: 1e9 * (phase == "data"), seed=seed)
    )


def compared(first, second):
    return compare_sides(side_of_run(first), side_of_run(second), Rules(margin=0.02))


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """5 ms per step on the line."""
    return run_of(tmp_path_factory.mktemp("before"), 5.0, BEFORE)


def test_a_line_that_became_slower_is_named_although_its_number_moved(before, tmp_path):
    comparison = compared(before, run_of(tmp_path, 20.0, AFTER, seed=1))
    rows = comparison.lines.to_dict("records")
    assert [(row["file"], row["first_line"], row["second_line"]) for row in rows] == [
        ("transforms.py", 41, 44)
    ]
    assert rows[0]["low_ns"] <= 15e6 <= rows[0]["high_ns"]
    said = line_texts(comparison)
    assert said[0].endswith(" per step, 5.00 ms -> 20.0 ms")
    assert said[0].startswith(
        "mnist on 2 ranks, data: transforms.py:44 (crop), line 41 before, is slower by 15.0 ms"
    )


def test_the_same_run_again_names_no_line(before, tmp_path):
    assert compared(before, run_of(tmp_path, 5.0, BEFORE, seed=2)).lines.empty


def test_one_launch_is_not_enough(before, tmp_path):
    assert compared(before, run_of(tmp_path, 20.0, AFTER, repeats=1)).lines.empty


def test_runs_without_samples_have_no_lines(before, tmp_path):
    parts = typical_parts(60.0, 2.0)
    segment = SegmentSpec(parts_ms=parts, num_steps=150)
    specs = [PassSpec(size=2, repeat=repeat, segments=[segment]) for repeat in (1, 2, 3)]
    other = analyze_run(load_run(write_run(tmp_path, specs)))
    assert compared(before, other).lines.empty
    assert np.isfinite(before.lines["time_ns"]).any()
