"""Memory that grows is named and cleared; noise, caches and what is freed again are not named."""

import math

import numpy as np
import pytest

from benchmarks.watch_simulated import clean_memory
from hvdprof.analyze.findings.run_rules import memory_rules
from hvdprof.analyze.ranks import rank_machine
from hvdprof.live import memory_growth
from hvdprof.live.explanation import Sampled
from hvdprof.live.memory_growth import MemoryGrowth, growth_between_parts

GB, MB = 1e9, 1e6


def _seen(levels, *, room=64 * GB, measure="rss", growth=None, length_s=5.0):
    growth = growth or MemoryGrowth()
    found = []
    for at, level in enumerate(levels):
        window = Sampled(0, "rank", at * length_s, (at + 1) * length_s, {measure: float(level)})
        found += [(at * length_s, *one) for one in growth.take(window, room)]
    return found


def _leak(rate, *, flat=60, grows=200, after=60, base=2 * GB):
    rng = np.random.default_rng(1)
    level = np.concatenate([np.zeros(flat), np.arange(grows), np.full(after, grows)]) * rate * 5
    return base + level + rng.normal(0, 2 * MB, len(level))


def test_a_fast_leak_is_named_in_minutes_with_its_rate_and_cleared_when_it_stops():
    (at_s, found, is_begin), (over_s, _, is_over) = _seen(_leak(40 * MB))
    assert (is_begin, is_over) == (True, False)
    assert (found.rank, found.measure) == (0, "rss")
    assert 60 * 5 + 60 <= at_s <= 60 * 5 + 240
    assert found.since_s == pytest.approx(300, abs=15)
    assert found.per_s == pytest.approx(40 * MB, rel=0.05)
    assert 260 * 5 < over_s <= 260 * 5 + 90


def test_a_slow_leak_is_named_once_it_has_lasted():
    (at_s, _, is_begin), *_ = _seen(_leak(0.3 * MB, grows=1200))
    assert is_begin
    assert 3600 <= at_s - 300 <= 4000


def test_gpu_memory_is_named_where_it_has_grown_by_half():
    (at_s, found, _), *_ = _seen(_leak(10 * MB, grows=600), measure="torch_allocated")
    assert found.measure == "torch_allocated"
    assert 80 <= at_s - 300 <= 200


@pytest.mark.parametrize("kind", ["noise", "walk", "sawtooth", "evaluation", "cache", "slow"])
def test_what_does_not_stay_is_not_named(kind):
    rng = np.random.default_rng(5)
    for _ in range(4):
        assert _seen(clean_memory(rng, kind, 1440)) == []


def test_a_growth_that_stays_below_what_was_there_before_is_none():
    first = np.concatenate([np.full(60, 9.0), np.linspace(3, 8.9, 300), np.full(20, 8.9)])
    assert _seen(first * GB) == []


def test_growth_by_less_than_analyze_says_is_none():
    assert _seen(_leak(0.001 * MB, grows=900, base=0.1 * GB) - 0.0) == []


def test_what_ended_and_begins_again_is_named_again():
    leak = _leak(40 * MB)
    found = _seen([*leak, *(leak[60:] + leak[-1] - leak[60])])
    assert [is_begin for *_, is_begin in found] == [True, False, True, False]


def test_the_rule_is_that_of_a_run_that_is_over():
    assert memory_growth.STILL_GROWING >= memory_rules.STILL_GROWING
    rng = np.random.default_rng(3)
    for number in (12, 17, 61):
        windows = np.zeros((number, 5))
        windows[:, 0] = np.arange(number) * 5e9
        windows[:, 1] = 5e9
        windows[:, 2] = 2e9 + np.cumsum(rng.normal(5e6, 2e7, number))
        expected = rank_machine._growth(windows, 1e9)
        points = [(float(one[0] + one[1] / 2) / 1e9, float(one[2])) for one in windows]
        names = ("growth", "growth_low", "last_growth")
        assert growth_between_parts(points) == pytest.approx(
            [expected[name] for name in names], rel=5e-3
        )


def test_windows_that_overlap_or_repeat_end_nothing():
    window = Sampled(0, "rank", 0.0, 5.0, {"rss": 1e9})
    growth = MemoryGrowth()
    assert [list(growth.take(window, math.nan)) for _ in range(30)] == [[]] * 30
