"""The mean step of each rank: baseline, named part, and at most twelve bars."""

import pytest

from hvdprof import units
from hvdprof.api import analyze_run, load_run
from hvdprof.report.screen.rank_bars import MOST_BARS, _shown, rank_bars
from hvdprof.report.screen.rank_phases import rank_phases
from hvdprof.report.screen.tiles import verdict_cell
from tests.builders.recorded_runs import unpacked
from tests.builders.served_dashboard import measured_run


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    return analyze_run(load_run(unpacked("horovod-slow-data", tmp_path_factory.mktemp("late"))))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return analyze_run(load_run(measured_run(tmp_path_factory.mktemp("measured") / "run")))


def test_the_named_part_says_what_the_sentence_beside_it_says(late):
    cell = verdict_cell(late)
    bars = rank_bars(late, cell)
    named = [(bar.rank, one.part, one.excess) for bar in bars.bars for one in bar.segments]
    assert [one for one in named if one[2]] == [(1, "data", "+34 ms")]
    assert "slower by 34 ms in data" in rank_phases(late, cell).sentence
    assert [bar.label for bar in bars.bars] == ["rank 0", "rank 1"]


def test_the_baseline_is_the_first_bar_and_the_longest_is_full(measured):
    bars = rank_bars(measured, verdict_cell(measured)).bars
    assert [bar.label for bar in bars] == ["baseline", "rank 0", "rank 1"]
    assert bars[0].rank is None
    widths = [sum(one.share for one in bar.segments) for bar in bars]
    assert max(widths) == pytest.approx(1.0, abs=0.01)
    assert widths[0] < widths[1]


def test_the_baseline_has_the_step_time_of_the_waterfall(measured):
    cell = verdict_cell(measured)
    (base,) = measured.scaling[
        (measured.scaling["engine"] == "torch") & (measured.scaling["model"] == cell["model"])
    ].to_dict("records")
    step_ns = base["batch_size"] * base["np"] / base["samples_per_s"] * 1e9
    assert rank_bars(measured, cell).bars[0].step == units.milliseconds(step_ns)


def test_of_many_ranks_the_slowest_the_median_and_the_fastest_are_shown():
    assert _shown([3, 1, 2, 0]) == [0, 1, 2, 3]
    shown = _shown(list(range(64)))
    assert shown == [0, 1, 2, 3, 4, 5, 32, 59, 60, 61, 62, 63]
    assert len(shown) == MOST_BARS
