"""Ranks whose own time changed against the others: stated own times, and simulated scatter."""

import numpy as np
import pytest

from hvdprof.analyze.compare.comparison import compare_sides, side_of_run
from hvdprof.analyze.compare.outcomes import chance_of, change_of
from hvdprof.analyze.compare.rank_changes import rank_changes, usual_times
from hvdprof.analyze.pipeline import analyze_run
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.stats.uncertainty import Spread
from hvdprof.api import load_run
from hvdprof.model.results.comparison import Rules
from hvdprof.report.answers.comparison_page import line_texts
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.sampled_lines import with_samples
from tests.builders.step_works import MS, PARTS_MS, simulated

STEP_NS = 100.0 * MS
PHASES = {**PARTS_MS, "outside": 0.0}

BEFORE, AFTER = ("/old/transforms.py", 41, "crop"), ("/new/transforms.py", 44, "crop")


def side(num, num_ranks, seed, *, scatter_ms=0.2, shared_ms=0.0, **extra_ms):
    """The own times of launches: each rank and phase scatters between them."""
    random = np.random.default_rng(seed)
    return [
        {
            phase: MS
            * (
                mean
                + scatter_ms * random.normal(size=num_ranks)
                + shared_ms * random.normal()
                + np.asarray(extra_ms.get(phase, 0.0))
            )
            for phase, mean in PHASES.items()
        }
        for _ in range(num)
    ]


def named(first, second, *, is_paired=False, level=0.05):
    found = rank_changes(first, second, is_paired=is_paired, step_ns=STEP_NS, level=level)
    return [(one.place, one.phase, round(one.change.value / MS)) for one in found]


@pytest.mark.parametrize("is_paired", [False, True])
def test_a_rank_is_named_with_its_phase_however_much_all_ranks_scatter(is_paired):
    first = side(5, 4, 1, shared_ms=10.0)
    second = side(5, 4, 2, shared_ms=10.0, forward=[0.0, 0.0, 4.0, 0.0])

    assert named(first, second, is_paired=is_paired) == [(2, "forward", 4)]


def test_what_all_ranks_share_is_no_change_of_a_rank():
    assert named(side(5, 4, 3), side(5, 4, 4, forward=6.0, data=3.0)) == []
    assert named(side(5, 2, 3), side(5, 2, 4, forward=6.0)) == []


def test_of_two_ranks_the_one_whose_time_changed_is_named():
    assert named(side(5, 2, 5), side(5, 2, 6, backward=[0.0, 5.0])) == [(1, "backward", 5)]
    assert named(side(5, 2, 5), side(5, 2, 6, backward=[-5.0, 0.0])) == [(0, "backward", -5)]
    # Both took longer, one of them more: the rest is shared.
    assert named(side(5, 2, 5), side(5, 2, 6, backward=[3.0, 8.0])) == [(1, "backward", 5)]


def test_half_of_the_ranks_are_named_and_the_others_are_usual():
    found = named(side(6, 4, 7), side(6, 4, 8, forward=[5.0, 0.0, 0.0, 7.0]))
    assert found == [(3, "forward", 7), (0, "forward", 5)]


def test_a_certain_change_below_one_percent_of_the_step_has_no_name():
    small = [0.0, 0.0, 0.9, 0.0]
    assert named(side(8, 4, 9, scatter_ms=0.01), side(8, 4, 10, scatter_ms=0.01, data=small)) == []


def test_one_rank_has_no_others_and_one_launch_no_scatter():
    assert named(side(5, 1, 11), side(5, 1, 12, forward=9.0)) == []
    assert named(side(1, 2, 11), side(1, 2, 12, forward=[0.0, 30.0])) == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("num", "num_ranks", "is_paired"), [(3, 2, False), (3, 4, True), (6, 2, True)]
)
def test_healthy_runs_name_a_rank_in_at_most_5_percent(num, num_ranks, is_paired):
    """Of 400 pairs; 33 or more would have a chance of 0.5 % at 5 %."""
    wrong = sum(
        bool(
            named(
                side(num, num_ranks, 2 * number + 50, scatter_ms=4.0),
                side(num, num_ranks, 2 * number + 51, scatter_ms=4.0),
                is_paired=is_paired,
            )
        )
        for number in range(400)
    )
    assert 0 < wrong <= 32


def test_usual_times_leave_rare_stalls_out():
    extra = np.zeros((40, 2))
    extra[[7, 23]] = [0.0, 500.0]
    found = usual_times(rank_times(simulated(40, 2, extra_ms={"data": extra}, noise=0.01)), ())

    assert found["data"] == pytest.approx(2.0 * MS, rel=0.01)
    assert set(found) == set(PHASES)


def test_the_p_value_is_that_of_students_t():
    pairs = change_of(np.zeros(3), np.array([1.0, 2.0, 3.0]), is_paired=True)
    # t = 2 / sqrt(1 / 3) = 3.4641 with 2 degrees of freedom.
    assert chance_of(pairs, 100.0) == pytest.approx(0.0742, abs=1e-4)
    assert chance_of(Spread(5.0, float("nan"), 0.0), 100.0) == 1.0
    assert chance_of(Spread(1e-12, 0.0, 4.0), 100.0) == 1.0
    assert chance_of(Spread(1.0, 0.0, 4.0), 100.0) == 0.0


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
