"""A rank that is late without a pattern: the jitter is its, and no sentence is on all ranks."""

from pathlib import Path

import numpy as np
import pytest

from hvdprof.analyze.causes.late_rank import late_rank
from hvdprof.analyze.causes.rank_alone import PHASES_OF
from tests.builders.analysis import analysis_of
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts
from tests.builders.step_works import simulated

NUM_STEPS = 40


def _bursts(num_ranks: int, rank: int, steps: list[int]):
    late = np.zeros((NUM_STEPS, num_ranks))
    late[steps, rank] = 80.0
    return late


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_bursts_of_one_rank_in_some_steps_are_its(num_ranks: int) -> None:
    late = _bursts(num_ranks, 1, [4, 9, 13, 22, 26, 31, 37, 39])
    found = late_rank([simulated(NUM_STEPS, num_ranks, extra_ms={"data": late})], [], PHASES_OF)
    assert found is not None
    assert (found.rank, found.phase, found.is_sure) == (1, "data", True)


def test_three_bursts_are_its_but_may_be_chance() -> None:
    late = _bursts(2, 1, [4, 22, 37])
    found = late_rank([simulated(NUM_STEPS, 2, extra_ms={"forward": late})], [], PHASES_OF)
    assert found is not None
    assert (found.rank, found.phase, found.is_sure) == (1, "", False)


def test_bursts_of_two_ranks_are_of_none() -> None:
    late = _bursts(2, 1, [4, 9, 13, 22]) + _bursts(2, 0, [6, 11, 30])
    work = simulated(NUM_STEPS, 2, extra_ms={"backward": late})
    assert late_rank([work], [], PHASES_OF) is None


def test_most_of_the_lateness_in_few_of_the_large_delays_is_of_none() -> None:
    late = 3 * _bursts(2, 1, [4, 13, 31]) + _bursts(2, 0, [6, 22])
    work = simulated(NUM_STEPS, 2, extra_ms={"backward": late})
    assert late_rank([work], [], PHASES_OF) is None


def test_all_large_delays_beside_many_small_ones_of_another_rank_are_of_none() -> None:
    late = _bursts(2, 1, [4, 9, 13, 22, 31])
    late[5::3, 0] = 20.0
    work = simulated(NUM_STEPS, 2, extra_ms={"backward": late})
    assert late_rank([work], [], PHASES_OF) is None


def test_the_first_of_two_queues_that_run_empty_is_not_late_alone() -> None:
    late = _bursts(2, 1, [4, 9, 13, 22, 26, 31, 37]) + _bursts(2, 0, [38])
    work = simulated(NUM_STEPS, 2, extra_ms={"data": late})
    assert late_rank([work], [], PHASES_OF) is None


def test_a_rank_is_not_late_where_another_has_a_short_step() -> None:
    short = np.zeros((NUM_STEPS, 2))
    short[9::10, 0] = -40.0
    work = simulated(NUM_STEPS, 2, extra_ms={"forward": short})
    assert late_rank([work], [], PHASES_OF) is None


def test_one_rank_and_noise_are_not_late() -> None:
    assert late_rank([], [], PHASES_OF) is None
    assert late_rank([simulated(NUM_STEPS, 1)], [], PHASES_OF) is None
    assert late_rank([simulated(NUM_STEPS, 4)], [], PHASES_OF) is None


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
def test_jitter_is_no_ranks_whose_delays_are_a_cause_of_their_own(tmp_path: Path) -> None:
    analysis = _burst_run(tmp_path, 1)
    rows = analysis.table("waterfall").query("np == 2").set_index("term")["ranks"].astype(str)
    assert (rows["input-bound"], rows["jitter"]) == ("1", "")


@pytest.mark.heavy
def test_no_sentence_says_that_all_ranks_wait_where_one_does(tmp_path: Path) -> None:
    analysis = _burst_run(tmp_path, 5)

    said = analysis.verdict.sentence
    assert "Largest loss: jitter, most of it of rank 1" in said
    assert "about as large as input (rank 1)" in said
    assert "data loading of rank 1" in said
    texts = " ".join([said, *analysis.findings["title"], *analysis.findings["evidence"]])
    for claim in ("all ranks", "every rank", "rotating", "changes from step to step"):
        assert claim not in texts
