import numpy as np
import pytest
import scipy.stats

from hvdprof.analyze.causes.line_times import (
    SampledLines,
    chance_of_excess,
    difference_ends,
    line_times,
)
from hvdprof.analyze.stats.uncertainty import wilson
from hvdprof.api import load_run
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.sampled_lines import TRAIN, with_samples

NUM = 4_000


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two ranks with 200 steps of 100 ms each."""
    folder = tmp_path_factory.mktemp("run")
    segment = SegmentSpec(parts_ms=typical_parts(100.0, 4.0), num_steps=200)
    return load_run(write_run(folder, [PassSpec(size=2, segments=[segment])]))


def times_of(run, first_steps=None):
    samples, whole = run.table("line_samples"), run.table("line_sampling")
    return line_times(SampledLines(samples, whole, first_steps or {}))


@pytest.mark.heavy
def test_intervals_hold_the_true_time_of_a_line(run):
    """One of 29 ms of forward in 100 ms takes 30 % of that: 8.6 ms."""
    held = []
    for seed in range(60):
        lines = times_of(with_samples(run, seed=seed))
        own = lines[(lines["function"] == "Net.forward").to_numpy()]
        held += ((own["time_low_ns"] <= 8.64e6) & (own["time_high_ns"] >= 8.64e6)).tolist()
    assert len(held) == 120
    assert np.mean(held) >= 0.9


def test_the_excess_is_against_the_other_ranks_in_the_same_phase(run):
    planted = (TRAIN, 99, "bug")
    lines = times_of(
        with_samples(run, planted, lambda _, phase, rank, __: 20e6 * (phase, rank == 1)[1])
    )
    own = lines[(lines["line"] == 99).to_numpy() & (lines["phase"] == "backward").to_numpy()]
    assert own["rank"].tolist() == [1]
    row = own.iloc[0]
    assert row["excess_low_ns"] < 20e6 < row["excess_high_ns"]
    assert row["excess_ns"] == pytest.approx(row["time_ns"])


def test_too_few_samples_have_no_time(run):
    lines = times_of(with_samples(run, hz=0.5))
    few = lines[(lines["samples"] < 5).to_numpy()]
    assert len(few)
    assert few[["time_ns", "time_low_ns", "excess_ns"]].isna().to_numpy().all()
    assert lines.loc[(lines["samples"] >= 5).to_numpy(), "time_ns"].notna().all()


def test_windows_of_the_warm_up_do_not_count(run):
    sampled = with_samples(run)
    key = sampled.segments["pass_id"].iloc[0], sampled.segments["segment"].iloc[0]
    whole = times_of(sampled)["samples"].sum()
    steady = times_of(sampled, {key: 100})["samples"].sum()
    assert 0.4 * whole < steady < 0.6 * whole


def test_a_line_of_no_user_is_named_by_its_innermost_function(run):
    leaf = "PIL/Image.py Image.decode"
    workers = {0: [(("", 0, ""), leaf, 40)]}
    lines = times_of(with_samples(run, workers=workers))
    own = lines[(lines["process"] == "worker").to_numpy()]
    assert own[["file", "line", "function", "samples"]].to_numpy().tolist() == [["", 0, leaf, 40]]
    # 40 samples at 20 Hz are 2 s, over 202 steps with those of the warm-up.
    assert own["time_ns"].iloc[0] == pytest.approx(2e9 / 202)


def test_without_samples_there_are_no_lines(run):
    assert times_of(run).empty


def test_the_chance_is_that_of_the_conditional_binomial_test():
    for count, other, exposure, beside in [(7, 2, 1.0, 1.0), (40, 3, 10.0, 2.0), (1, 0, 1.0, 3.0)]:
        share = exposure / (exposure + beside)
        expected = scipy.stats.binomtest(count, count + other, share, alternative="greater").pvalue
        assert chance_of_excess(count, other, exposure, beside) == pytest.approx(expected)


def test_without_samples_or_anything_to_hold_them_against_nothing_is_unlikely():
    assert chance_of_excess(0, 5, 1.0, 1.0) == 1.0
    assert chance_of_excess(5, 0, 1.0, 0.0) == 1.0


def test_equal_lines_are_rarely_called_longer():
    rng = np.random.default_rng(0)
    counts, others = rng.poisson(12.0, NUM), rng.poisson(24.0, NUM)
    chances = [
        chance_of_excess(int(a), int(b), 1.0, 2.0) for a, b in zip(counts, others, strict=True)
    ]
    assert (np.array(chances) <= 0.05).mean() <= 0.055


def test_intervals_of_a_difference_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    first, second = rng.binomial(80, 0.3, NUM) / 80, rng.binomial(150, 0.1, NUM) / 150
    of_first = (first, *wilson(first, np.full(NUM, 80.0)))
    of_second = (second, *wilson(second, np.full(NUM, 150.0)))
    low, high = difference_ends(of_first, of_second)
    held = ((low <= 0.2) & (high >= 0.2)).mean()
    assert 0.94 <= held <= 0.97


def test_samples_of_one_long_step_count_as_others_do():
    """With exponential gaps samples are a Poisson process, also where all time lies in one step."""
    rng = np.random.default_rng(2)
    held = []
    for _ in range(1_000):
        # 100 steps of 100 ms; the line takes 4 s, all of them in one step that lasts 4.1 s.
        ends = np.cumsum(rng.exponential(50.0, 600))
        ends = ends[ends < 14_000.0]
        at_line = float(((ends >= 6_000.0) & (ends < 10_000.0)).sum())
        low, high = wilson(np.array([at_line / len(ends)]), np.array([float(len(ends))]))
        held.append(low[0] <= 4_000 / 14_000 <= high[0])
    assert np.mean(held) >= 0.94
