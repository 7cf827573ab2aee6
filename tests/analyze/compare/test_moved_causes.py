"""What moved between two runs: simulated launches with a known change."""

import numpy as np
import pytest

from hvdprof.analyze.compare.cell_launches import no_times
from hvdprof.model.cause_names import cause_name, change_sentence
from tests.builders.compared_launches import compared, launches, step_ns
from tests.builders.step_works import MS, simulated

STRAGGLER_MS = 4.0
"""Of a step of 100 ms: below what one run alone calls a straggler."""


def only(found, term):
    (row,) = found[found["term"] == term].to_dict("records")
    return row


def moved(found):
    return [cause_name(row) for row in found[found["moved"]].to_dict("records")]


def test_a_rank_that_is_slower_by_4_percent_is_named_with_its_phase_and_cost():
    second = launches(4, extra_ms={"forward": np.array([0.0, STRAGGLER_MS])}, seed=2)
    found = compared(launches(4, seed=1), second)

    assert moved(found) == ["rank 1 slower in forward"]
    row = only(found, "rank-change")
    assert row["own_change_low_ns"] < STRAGGLER_MS * MS < row["own_change_high_ns"]
    assert row["own_change_ns"] == pytest.approx(STRAGGLER_MS * MS, rel=0.1)
    # The steps of both ranks vary by 1.3 ms, so a part of the delay costs nothing.
    assert 2.5 * MS < row["low_ns"] < row["difference_ns"] < row["own_change_ns"]
    assert change_sentence(row).startswith("Rank 1 is slower in forward by 4.")
    assert change_sentence(row).endswith(" ms per step.")


def test_the_differences_of_all_terms_sum_to_that_of_the_step_times():
    first = launches(3, num_ranks=4, placement=0.05, seed=3)
    second = launches(3, num_ranks=4, extra_ms={"data": np.array([0, 9.0, 0, 9.0])}, seed=4)
    found = compared(first, second)

    assert moved(found)[:2] == ["rank 1 slower in data", "rank 3 slower in data"]
    change = step_ns(second) - step_ns(first)
    assert found["difference_ns"].sum() == pytest.approx(change, rel=1e-9)
    assert found["one_ns"].sum() == pytest.approx(step_ns(first), rel=1e-9)


def test_waits_of_queues_that_run_empty_in_turn_are_input():
    turn = np.arange(40)[:, None] % 2 == np.arange(2)
    extra = {"data": np.where(turn, 30.0, 0.0)}
    second = [simulated(40, 2, extra_ms=extra, seed=seed) for seed in range(3)]
    first = launches(3, seed=7)
    found = compared(first, second)

    change = step_ns(second) - step_ns(first)
    assert only(found, "input-bound")["difference_ns"] == pytest.approx(30 * MS, rel=0.1)
    assert found["difference_ns"].sum() == pytest.approx(change, rel=1e-9)


@pytest.mark.parametrize(
    ("phase", "name"),
    [
        ("forward", "forward (all ranks)"),
        ("backward", "backward (all ranks)"),
        ("data", "input (all ranks)"),
        ("outside", "outside all phases"),
    ],
)
def test_all_ranks_slower_in_a_phase_are_named_as_such(phase, name):
    found = compared(launches(4, seed=5), launches(4, extra_ms={phase: 5.0}, seed=6))

    assert moved(found) == [name]
    row = found[found["moved"]].to_dict("records")[0]
    assert row["difference_ns"] == pytest.approx(5.0 * MS, rel=0.1)
    assert change_sentence(row).startswith("All ranks are slower ")


def test_a_rank_that_became_faster_is_named_with_what_that_saves():
    slow = launches(4, extra_ms={"backward": np.array([6.0, 0.0])}, seed=7)
    fast = launches(4, seed=8)
    found = compared(slow, fast)
    row = only(found, "rank-change")

    assert cause_name(row) == "rank 0 faster in backward"
    assert row["difference_ns"] == pytest.approx(-5.2 * MS, rel=0.1)
    assert row["other_ns"] == 0
    assert found["one_ns"].sum() == pytest.approx(step_ns(slow), rel=1e-9)
    assert found["other_ns"].sum() == pytest.approx(step_ns(fast), rel=1e-9)
    assert change_sentence(row).startswith("Rank 0 is faster in backward by 6.")
    assert ", which saves 5." in change_sentence(row)


@pytest.mark.heavy
def test_the_other_way_round_every_difference_has_the_other_sign():
    extra = {"forward": np.array([0.0, 5.0]), "data": np.array([4.0, 0.0])}
    one, other = launches(4, seed=18), launches(4, extra_ms=extra, seed=19)
    there, back = (
        found.set_index(["term", "ranks", "phase"])
        for found in (compared(one, other), compared(other, one))
    )

    assert list(there.index) == list(back.index)
    assert (there.index.get_level_values("term") == "rank-change").sum() == 2
    for name in ("difference_ns", "own_change_ns"):
        assert there[name].to_numpy() == pytest.approx(-back[name].to_numpy(), nan_ok=True)


def test_a_rank_that_clips_its_gradients_longer_is_slower_before_the_update():
    second = launches(4, extra_ms={"before_update": np.array([0.0, 5.0])}, seed=22)
    found = compared(launches(4, seed=21), second)

    assert moved(found) == ["rank 1 slower before the update"]
    assert only(found, "rank-change")["own_change_ns"] == pytest.approx(5.0 * MS, rel=0.05)


def test_a_straggler_of_both_runs_has_not_moved():
    extra = {"forward": np.array([0.0, 20.0])}
    found = compared(launches(4, extra_ms=extra, seed=9), launches(4, extra_ms=extra, seed=10))

    assert not found["moved"].any()
    row = only(found, "straggler")
    assert row["ranks"] == "1"
    assert row["one_ns"] == pytest.approx(row["other_ns"], rel=0.05)


@pytest.mark.heavy
def test_a_straggler_that_grew_is_split_into_what_was_there_and_what_came():
    before = launches(4, extra_ms={"forward": np.array([0.0, 20.0])}, seed=11)
    found = compared(before, launches(4, extra_ms={"forward": np.array([0.0, 35.0])}, seed=12))

    assert moved(found) == ["rank 1 slower in forward"]
    assert only(found, "rank-change")["difference_ns"] == pytest.approx(15.0 * MS, rel=0.05)
    assert only(found, "straggler")["difference_ns"] == pytest.approx(0.0, abs=0.5 * MS)


@pytest.mark.heavy
def test_interleaved_launches_are_compared_by_repeat():
    """Both launches of a repeat share a placement that differs by more than the change."""

    def side(seed, extra):
        shared = [np.array([0.0, 15.0 * (-1) ** number]) for number in range(6)]
        return [
            launches(1, extra_ms={"forward": one + np.array([0.0, extra])}, seed=seed + number)[0]
            for number, one in enumerate(shared)
        ]

    first, second = side(20, 16.0), side(40, 20.0)
    assert moved(compared(first, second, is_paired=True)) == ["rank 1 slower in forward"]
    assert not compared(first, second)["moved"].any()


def test_one_launch_a_side_moves_nothing():
    found = compared(launches(1, seed=13), launches(1, extra_ms={"forward": 30.0}, seed=14))

    assert not found["moved"].any()
    assert found["low_ns"].isna().all()
    assert found["difference_ns"].sum() > 25 * MS


def test_launches_without_phases_still_name_the_rank():
    def blind(works):
        for work in works:
            for times in work.parts.values():
                times[:] = 0.0
        return works

    second = launches(4, extra_ms={"forward": np.array([0.0, 8.0])}, seed=16)
    found = compared(blind(launches(4, seed=15)), blind(second))

    assert moved(found) == ["rank 1 slower"]
    assert change_sentence(only(found, "rank-change")).startswith("Rank 1 is slower by ")
    assert "own work (all ranks)" in [cause_name(row) for row in found.to_dict("records")]


def test_a_rank_that_is_slow_from_a_step_on_keeps_its_beginning():
    late = np.arange(40) >= 20
    extra = np.stack([np.zeros(40), 15.0 * late], axis=1)
    second = [simulated(40, 2, extra_ms={"forward": extra}, seed=seed) for seed in range(4)]
    found = compared(launches(4, seed=17), second)

    assert "rank-change" not in set(found["term"])
    assert only(found, "straggler")["pattern"] == "from-step"


def test_runs_without_recorded_steps_have_no_terms():
    assert no_times([("p", "s")]) == {}


@pytest.mark.heavy
@pytest.mark.parametrize("is_paired", [False, True])
def test_healthy_runs_name_no_rank_and_no_term_beyond_chance(is_paired):
    """How often they do of 1,000 pairs: docs/explain/accuracy.md."""
    found = [
        compared(
            launches(3, placement=0.03, num_steps=12, seed=2 * number + 100),
            launches(3, placement=0.03, num_steps=12, seed=2 * number + 101),
            is_paired=is_paired,
        )
        for number in range(10)
    ]
    assert sum(bool(one["moved"].any()) for one in found) <= 2
    assert sum("rank-change" in set(one["term"]) for one in found) <= 2
