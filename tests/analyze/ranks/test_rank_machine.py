"""What the machine did to each rank, against the other ranks in the same windows."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.ranks.rank_machine import rank_machine
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.tables.sample_tables import DEVICE_SAMPLES, RANK_SAMPLES
from tests.builders.step_works import simulated

S = 1_000_000_000
KEY = ("pass", "segment")


def samples(values: dict[int, list[float]], measure: str = "core_wait") -> pd.DataFrame:
    """RANK_SAMPLES: one window of a second for each value; ranks begin 0.1 s apart."""
    rows = [
        {
            "pass_id": "pass",
            "rank": rank,
            "start_ns": int((place + rank / 10) * S),
            "duration_ns": S,
            "measure": measure,
            "samples": 1,
            **dict.fromkeys(("mean", "low", "median", "high"), value),
        }
        for rank, own in values.items()
        for place, value in enumerate(own)
    ]
    return RANK_SAMPLES.frame(rows)


def work(begin_s: float, end_s: float) -> StepWork:
    """Steady steps of two ranks, from one time to another."""
    steps = simulated(4, 2)
    length = (end_s - begin_s) * S
    begin = begin_s * S + np.linspace(0, length, 5)[:-1, None] + np.zeros((4, 2))
    zero = np.zeros((4, 2))
    return dataclasses.replace(
        steps, begin=begin, arrived=begin + length / 4, transfer=zero, own_after_release=zero
    )


def table(own: pd.DataFrame, begin_s: float = 0, end_s: float = 100) -> pd.DataFrame:
    return rank_machine((own, DEVICE_SAMPLES.empty()), {KEY: work(begin_s, end_s)})


def test_a_rank_that_waits_in_every_window_differs() -> None:
    found = table(samples({0: [0.02, 0.1, 0.0, 0.05] * 5, 1: [0.5, 0.4, 0.6, 0.5] * 5}))
    first, second = found.to_dict("records")

    assert (second["windows"], second["num_above"], second["num_below"]) == (20, 20, 0)
    assert second["mean"] == pytest.approx(0.5)
    assert second["others"] == pytest.approx(0.0425, abs=0.01)
    assert (second["low"], second["high"]) == (0.4, 0.6)
    # Twice, for above and below, for each of two ranks, in 20 windows.
    assert second["chance"] == pytest.approx(4 * 0.5**20)
    assert first["num_below"] == 20


def test_ranks_that_change_places_do_not() -> None:
    found = table(samples({0: [0.1, 0.5] * 8, 1: [0.5, 0.1] * 8, 2: [0.3, 0.3] * 8}))

    assert (found["chance"] > 0.5).all()


def test_only_windows_of_steady_steps_count() -> None:
    own = samples({0: [0.0] * 20, 1: [0.9] * 10 + [0.0] * 10})
    found = table(own, begin_s=10.3, end_s=20)

    # The last one of rank 1 ends after the last step.
    assert found["windows"].tolist() == [10, 9]
    assert found["mean"].tolist() == [0, 0]
    # Windows that begin before the steps, by 0.2 s, hold nothing of the others.
    assert (found["num_above"] == 0).all()


def test_windows_of_turns_of_other_launches_are_left_out() -> None:
    steps = work(0, 4)
    # The ranks sleep for four seconds between their second and third step.
    begin = steps.begin + np.array([0, 0, 4, 4])[:, None] * S
    slept = dataclasses.replace(steps, begin=begin, arrived=begin + S)
    own = samples({0: [30, 30, 0, 0, 0, 0, 34, 34], 1: [30, 30, 1, 0, 0, 0, 34, 34]}, "batches")
    found = rank_machine((own, DEVICE_SAMPLES.empty()), {KEY: slept})

    # Of rank 1, whose windows begin 0.1 s later, the last one does not end in the steps.
    assert found["mean"].tolist() == pytest.approx([32.0, 94 / 3])
    # Where all is beside the steps, growth is that of the sleep; memory is what it is.
    sparse = pd.concat(
        samples({0: [0.0, 0.0, 7.0, 0.0]}, measure).assign(
            start_ns=lambda own: own.start_ns + 2 * S
        )
        for measure in ("batches", "rss")
    )
    (only,) = rank_machine((sparse, DEVICE_SAMPLES.empty()), {KEY: slept}).to_dict("records")
    assert (only["measure"], only["windows"]) == ("rss", 4)


def test_memory_that_is_freed_behind_the_last_step_grew_until_then() -> None:
    rss = [float(place) for place in range(18)]
    found = table(samples({0: [*rss, 0.0]}, "rss"), end_s=18.6)

    assert (found["low"][0], found["high"][0]) == (0, 17)
    assert found["last_growth"][0] == pytest.approx(found["growth"][0])


def test_windows_of_other_lengths_are_compared_over_the_same_time() -> None:
    short = samples({0: [1.0, 3.0] * 10})
    long = short.assign(rank=1, mean=2.5).iloc[::2].assign(duration_ns=2 * S)
    found = table(pd.concat([short, RANK_SAMPLES.frame(long)]))

    # Means of 1 and 3 in turn against 2.5.
    assert found["num_above"].tolist() == [10, 10]


def test_one_rank_is_compared_with_nothing() -> None:
    (row,) = table(samples({0: [0.1] * 5})).to_dict("records")

    assert math.isnan(row["others"])
    assert math.isnan(row["chance"])
    assert row["mean"] == pytest.approx(0.1)


def test_without_samples_or_steps_there_are_no_rows() -> None:
    assert table(RANK_SAMPLES.empty()).empty
    assert table(samples({0: [0.1], 1: [0.2]}), begin_s=50, end_s=60).empty
    assert rank_machine((samples({0: [0.1]}),), {("other", "s"): work(0, 9)}).empty


def test_a_rank_without_windows_in_common_is_not_judged() -> None:
    early, late = samples({0: [0.1, 0.2]}), samples({1: [0.1, 0.2]})
    late["start_ns"] += 50 * S
    found = table(pd.concat([early, late]))

    assert found["chance"].isna().all()
    assert found["others"].isna().all()


def growths(values: list[float]) -> dict[str, float]:
    (row,) = table(samples({0: values}, "rss"), end_s=len(values)).to_dict("records")
    return {str(name): float(row[name]) for name in row if "growth" in str(name)}


def test_growth_is_per_step_with_its_interval() -> None:
    """A step takes a quarter of the time, so 10 s, of 3 per second."""
    rng = np.random.default_rng(1)
    found = growths([3.0 * second + rng.normal() for second in range(40)])

    assert found["growth_low"] < 30 < found["growth_high"]
    assert found["growth"] == pytest.approx(30, rel=0.05)
    assert found["growth_low"] > 25


def test_noise_and_a_filled_cache_do_not_grow() -> None:
    rng = np.random.default_rng(2)
    noise = growths(list(rng.normal(size=60)))
    filled = growths([min(second, 15) * 1.0 for second in range(60)])

    assert noise["growth_low"] < 0 < noise["growth_high"]
    assert filled["last_growth"] == 0


def test_few_windows_have_no_growth() -> None:
    assert all(map(math.isnan, growths([1.0] * 11).values()))
