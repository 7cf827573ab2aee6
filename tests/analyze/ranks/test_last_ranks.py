"""The rule on the last rank: what it names, and how seldom it names one of equal ranks."""

import numpy as np
import pytest

from hvdprof.analyze.ranks.last_rank_verdict import Judged, Words, last_rank_verdict
from hvdprof.analyze.ranks.last_ranks import LARGEST_CHANCE, LastRanks
from hvdprof.model.file_page import FileVerdict, Gravity

MS = 1_000_000
STEP_MS = 20.0
WORDS = Words("submits", "rounds", "step")


def judged(late_ms: np.ndarray) -> Judged:
    """Rounds of 20 ms in which ranks [rounds, ranks] are late."""
    num_rounds, num_ranks = late_ms.shape
    begins = np.arange(num_rounds) * STEP_MS * 100
    ordered = np.sort(late_ms, axis=1)
    waits = LastRanks()
    waits.add(
        np.arange(num_rounds),
        late_ms.argmax(axis=1),
        ((begins + ordered[:, -2]) * MS).astype(np.int64),
        ((begins + ordered[:, -1]) * MS).astype(np.int64),
    )
    rounds = np.arange(num_rounds)
    return Judged(waits, rounds, num_rounds, num_ranks, int(num_rounds * STEP_MS * MS))


def jitter(rng: np.random.Generator, num_rounds: int, num_ranks: int, kind: str) -> np.ndarray:
    """Equal ranks: noise of one of three kinds that makes waits of more than 5 % of the time."""
    noise = rng.exponential(5.0, (num_rounds, num_ranks))
    if kind == "correlated":
        for number in range(1, num_rounds):
            noise[number] = 0.8 * noise[number - 1] + 0.6 * noise[number]
    if kind == "stalls":
        noise += 60.0 * (rng.random((num_rounds, num_ranks)) < 0.03)
    return noise


@pytest.mark.parametrize("kind", ["independent", "correlated", "stalls"])
@pytest.mark.parametrize("num_ranks", [2, 4, 16])
def test_equal_ranks_are_named_no_more_often_than_stated(kind: str, num_ranks: int) -> None:
    rng = np.random.default_rng(num_ranks)
    jobs = 120
    named = sum(bool(judged(jitter(rng, 40, num_ranks, kind)).named) for _ in range(jobs))
    # Three standard deviations above 2 % of 120.
    assert named <= LARGEST_CHANCE * jobs + 3 * (LARGEST_CHANCE * jobs) ** 0.5


@pytest.mark.parametrize("num_ranks", [2, 4, 16])
def test_a_rank_that_is_late_is_named_and_no_other(num_ranks: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        late = rng.exponential(1.0, (30, num_ranks))
        late[:, 1] += 5.0
        assert [one.rank for one in judged(late).named] == [1]


def verdict_of(late: np.ndarray) -> FileVerdict:
    return last_rank_verdict(judged(late), WORDS)


def test_the_sentence_has_how_often_and_what_the_others_wait() -> None:
    late = np.zeros((20, 3))
    late[:, 2] = 4.0
    verdict = verdict_of(late)
    assert verdict.sentence == (
        "Rank 2 submits last in 20 of rounds; the others wait 4.00 ms per step (20.0 % of the "
        "recorded time)."
    )
    assert verdict.caveat == "By chance, equal ranks cause as much in at most 0.10 % of jobs."
    assert verdict.gravity == Gravity.WARNING


def test_one_long_wait_names_nobody_even_if_the_rank_is_last_in_most_rounds() -> None:
    late = np.zeros((40, 2))
    late[:, 1] = 0.1
    late[7, 1] = 400.0
    verdict = verdict_of(late)
    assert verdict.sentence.startswith("No persistent straggler: rank 1 submits last in 40 of")
    assert "By chance, equal ranks cause as much in most jobs." in verdict.sentence


def test_a_few_long_waits_do_not_hide_who_is_last_in_most_rounds() -> None:
    late = np.zeros((20, 2))
    late[:, 1] = 3.0
    late[[3, 9], 1] = 90.0
    late[15] = [3.0, 0.0]
    assert [one.rank for one in judged(late).named] == [1]


def test_two_late_ranks_are_both_named() -> None:
    late = np.zeros((60, 8))
    late[::2, 3], late[1::2, 5] = 6.0, 5.0
    verdict = verdict_of(late)
    assert verdict.sentence.startswith("Rank 3 submits last in 30 of")
    assert "Also rank 5 submits last in 30 of" in verdict.sentence


def test_a_short_wait_is_no_straggler_however_sure_it_is() -> None:
    late = np.zeros((40, 4))
    late[:, 1] = 0.5
    assert verdict_of(late).sentence == (
        "No straggler: rank 1 submits last in 40 of rounds; the others wait 500 µs per step (2.5 % "
        "of the recorded time)."
    )


def test_three_rounds_are_too_few() -> None:
    late = np.zeros((3, 8))
    late[:, 1] = 9.0
    assert verdict_of(late).sentence.startswith("Too few steps to name a straggler: rank 1 submits")


def test_without_waits_nothing_is_said() -> None:
    assert verdict_of(np.zeros((9, 3))) == FileVerdict("")
