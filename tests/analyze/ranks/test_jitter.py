"""The rank that most of the jitter lies on, and that no sentence is on all ranks then."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hvdprof.analyze.ranks.jitter import JitterRank, jitter_rank
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.steps.step_work import Times
from tests.builders.analysis import analysis_of
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts
from tests.builders.step_works import simulated

NUM_STEPS = 40


def _bursts(num_ranks: int, rank: int, steps: list[int]) -> Times:
    late = np.zeros((NUM_STEPS, num_ranks))
    late[steps, rank] = 80.0
    return late


def _jitter(num_ranks: int, **extra_ms: Times) -> JitterRank | None:
    """Of a launch whose causes are left without a name."""
    return jitter_rank([rank_times(simulated(NUM_STEPS, num_ranks, extra_ms=extra_ms))], [()])


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_most_of_the_jitter_is_of_a_rank_and_phase(num_ranks: int) -> None:
    late = _bursts(num_ranks, 1, [4, 9, 13, 22, 26, 31, 37, 39])
    assert _jitter(num_ranks, data=late) == JitterRank(1, "data")


def test_jitter_of_one_rank_in_two_phases_has_no_phase() -> None:
    late = _bursts(4, 1, [4, 9, 13, 22, 26, 31, 37, 39])
    assert _jitter(4, data=late / 2, outside=late / 2) == JitterRank(1, "")


def test_jitter_of_another_rank_in_another_launch_is_of_none() -> None:
    steps = [4, 9, 13, 22, 26, 31, 37, 39]
    one, other = (
        rank_times(simulated(NUM_STEPS, 4, extra_ms={"data": data}))
        for data in (9 * _bursts(4, 1, steps), _bursts(4, 2, steps))
    )
    assert jitter_rank([one, one], [(), ()]) == JitterRank(1, "data")
    assert jitter_rank([one, other], [(), ()]) is None


def test_what_has_a_name_is_no_jitter() -> None:
    late = _bursts(4, 1, [4, 9, 13, 22, 26, 31, 37, 39])
    times = rank_times(simulated(NUM_STEPS, 4, extra_ms={"data": late}))
    named = named_causes(times)
    assert [cause.ranks for cause in named] == [(1,)]
    assert jitter_rank([times], [named]) is None


def test_jitter_that_waits_for_a_core_explain_has_no_address() -> None:
    late = _bursts(2, 1, [4, 9, 13, 22, 26, 31, 37, 39])
    times = rank_times(simulated(NUM_STEPS, 2, extra_ms={"data": late}))
    assert jitter_rank([times], [()]) == JitterRank(1, "data")
    assert jitter_rank([replace(times, core_losses={1: 0.9})], [()]) is None


def test_three_bursts_may_be_chance() -> None:
    late = {"forward": _bursts(2, 1, [4, 22, 37])}
    works = [simulated(NUM_STEPS, 2, extra_ms=late, seed=seed) for seed in range(40)]
    # Any of two ranks has all three in a quarter of the launches.
    assert sum(jitter_rank([rank_times(work)], [()]) is not None for work in works) <= 10


def test_bursts_of_two_ranks_are_of_none() -> None:
    late = _bursts(2, 1, [4, 9, 13, 22]) + _bursts(2, 0, [6, 11, 30])
    assert _jitter(2, backward=late) is None


def test_one_rank_and_noise_have_no_address() -> None:
    assert jitter_rank([], []) is None
    assert _jitter(1) is None
    assert [_jitter(4), _jitter(2)] == [None, None]


def _burst_run(folder: Path, seed: int):
    """The shape of a DataLoader with 2 workers whose dataset is slow on rank 1.

    Bursts of 74 to 97 ms in a third of 23 steps, beside other work.
    """
    rng = np.random.default_rng(seed)
    parts = {name: np.full((2, 25), float(ms)) for name, ms in typical_parts(50.0, 2.0).items()}
    parts["forward"] += rng.normal(0, 1.5, (2, 25)).clip(-3, 3)
    hit = rng.random((2, 25)) < 0.35
    parts["data"][1] += hit[1] * rng.uniform(74, 97, 25)
    own = sum(times for name, times in parts.items() if name != "blocked")
    parts["blocked"] = 2.0 + own.max(axis=0) - own
    alone = SegmentSpec(num_steps=23, parts_ms=typical_parts(48.0))
    both = SegmentSpec(num_steps=23, parts_ms=parts)
    return analysis_of(folder, [PassSpec(segments=[alone]), PassSpec(size=2, segments=[both])])


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [1, 5])
def test_bursts_of_one_rank_are_in_the_first_lines_and_no_sentence_is_on_all(
    tmp_path: Path, seed: int
) -> None:
    analysis = _burst_run(tmp_path, seed)

    said = analysis.verdict.sentence
    assert "Largest loss: rank 1 late" in said
    assert "compare the input of rank 1 with that of the others" in said
    texts = " ".join([said, *analysis.findings["title"], *analysis.findings["evidence"]])
    for claim in ("all ranks", "every rank", "rotating", "changes from step to step"):
        assert claim not in texts
