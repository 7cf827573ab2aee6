"""What differs on a rank in the same windows explains it; what all have does not."""

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.findings import machine_evidence
from hvdprof.analyze.ranks.rank_machine import _rows, _windows_of
from hvdprof.analyze.steps import other_load
from hvdprof.live import explanation
from hvdprof.live.explanation import (
    Sampled,
    _compared,
    explained_rank,
    explained_slowdown,
    in_same_windows,
    of_measure,
)

USUAL = {"core_wait": 0.1, "main_thread": 0.9, "cgroup_throttled": 0.0}
CLOCKS = {"sm_clock": 1.9e9, "limited_power": 0.0, "limited_heat": 0.0}


def _windows(rank, number, *, begin_s=0.0, seed=0, **means):
    rng = np.random.default_rng((rank, seed))
    return [
        Sampled(
            *(rank, "rank", begin_s + 5 * at + rank * 0.7, begin_s + 5 * (at + 1) + rank * 0.7),
            {name: mean * rng.uniform(0.99, 1.01) for name, mean in means.items()},
        )
        for at in range(number)
    ]


def _ranks(number, size=4, **late):
    return {
        rank: _windows(rank, number, **(USUAL | CLOCKS | (late if rank == 1 else {})))
        for rank in range(size)
    }


def test_a_rank_without_a_core_is_explained_with_the_test():
    assert explained_rank(1, _ranks(12, core_wait=0.5), 0.3) == (
        "Rank 1 had no core for 50 % of the time in which it could run, the others 10 % (more in "
        "12 of 12 windows, by chance at most 0.01 %)."
    )


def test_a_clock_that_power_limits_is_explained_and_a_limited_cgroup():
    late = _ranks(12, sm_clock=1.3e9, limited_power=0.62)
    assert explained_rank(1, late, 0.3) == (
        "The SM clock of rank 1 is 1301 MHz, 32 % below that of the others (in 12 of 12 windows, "
        "by chance at most 0.01 %); clock limited by power 62 % of the time (others 0 %)."
    )
    assert explained_rank(1, _ranks(12, cgroup_throttled=0.4), 0.5).startswith(
        "Rank 1 had used up the CPU limit of its cgroup in 40 % of the periods, the others 0 %"
    )


@pytest.mark.parametrize(
    ("number", "late", "share"),
    [
        (12, {}, 0.3),
        # Too few windows, too small a difference, too small for the delay, another rank.
        (3, {"core_wait": 0.5}, 0.3),
        (12, {"core_wait": 0.13}, 0.01),
        (12, {"sm_clock": 1.7e9}, 0.9),
    ],
)
def test_what_does_not_explain_a_delay_is_not_said(number, late, share):
    assert explained_rank(1, _ranks(number, **late), share) == ""
    assert explained_rank(2, _ranks(12, core_wait=0.5), share) == ""
    assert explained_rank(0, {0: _ranks(12)[0]}, 0.1) == ""


def test_devices_that_all_become_slower_explain_a_slowdown():
    before = _ranks(30)
    hot = CLOCKS | {"sm_clock": 1.4e9, "limited_heat": 0.8}
    after = {rank: _windows(rank, 14, begin_s=150, seed=1, **(USUAL | hot)) for rank in range(4)}
    assert explained_slowdown(before, after, 0.3) == (
        "The SM clock of ranks 0-3 is 1401 MHz, 26 % below that before (in 14 of 14 windows, by "
        "chance at most 0.68 %); clock limited by heat 80 % of the time (before 0 %)."
    )
    assert explained_slowdown(before, after, 0.9) == ""
    assert explained_slowdown(before, {rank: own[:5] for rank, own in after.items()}, 0.3) == ""
    one = {rank: own if rank == 1 else before[rank][:14] for rank, own in after.items()}
    assert explained_slowdown(before, one, 0.3) == ""
    assert explained_slowdown({}, after, 0.3) == ""


def test_the_test_is_that_of_a_run_that_is_over():
    assert explanation.MOST_CHANCE == other_load.MOST_CHANCE
    assert explanation.LEAST_SIZE == machine_evidence.LEAST_SHARE
    assert explanation.LEAST_EXPLAINED == other_load.LEAST_EXPLAINED
    ranks = _ranks(12, size=3, core_wait=0.105)
    frame = pd.DataFrame(
        {
            "pass_id": "p",
            "measure": "core_wait",
            "rank": one.rank,
            "start_ns": one.begin_s * 1e9,
            "duration_ns": (one.end_s - one.begin_s) * 1e9,
            **dict.fromkeys(("mean", "low", "high"), one.means["core_wait"]),
        }
        for own in ranks.values()
        for one in own
    )
    grid = in_same_windows({rank: of_measure(own, "core_wait") for rank, own in ranks.items()})
    (windows,) = _windows_of(frame).values()
    for row in _rows(windows, 0.0, 1e12, 1e9, np.empty((0, 2)), False):
        rank = int(str(row["rank"]))
        others = [own for one, own in grid.items() if one != rank]
        found = _compared("core_wait", grid[rank], others, 1 / 3, 3)
        assert found.worse == row["num_above"]
        assert found.others == pytest.approx(row["others"])
        if row["num_above"] >= row["num_below"]:
            # The watcher looks with each window, `analyze` once.
            assert found.chance == pytest.approx(len(grid[rank]) * row["chance"])
