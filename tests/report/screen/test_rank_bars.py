"""The mean step of each rank: baseline, named part, and at most twelve bars."""

import pandas as pd
import pytest

from hvdprof import units
from hvdprof.api import analyze_run, load_run
from hvdprof.model.tables.collective_tables import BREAKDOWN
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, STRAGGLERS
from hvdprof.report.screen.rank_bars import (
    MOST_BARS,
    _shown,
    parts_answer,
    rank_bars,
    waiting_answer,
    when_answer,
)
from hvdprof.report.screen.rank_phases import rank_phases
from hvdprof.report.screen.tiles import verdict_cell
from tests.builders.declared_rows import declared_rows
from tests.builders.recorded_runs import unpacked
from tests.builders.served_dashboard import measured_run

MS = 1e6


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


def waits(*costs_ms: float) -> pd.DataFrame:
    return declared_rows(
        CAUSED_WAIT,
        *(
            {
                "rank": rank,
                "cost_ns": cost * MS,
                "cost_share": cost / 100,
                "share_last": 0.92 if rank == 0 else 0.08,
                "waited_ns": 2 * MS,
            }
            for rank, cost in enumerate(costs_ms)
        ),
    )


def straggler(pattern: str, phase: str) -> pd.DataFrame:
    return declared_rows(STRAGGLERS, {"rank": 0, "pattern": pattern, "phase": phase})


def test_a_straggler_is_named_with_its_phase_and_cost():
    assert waiting_answer(waits(42.0, 0.5), straggler("persistent", "forward")) == (
        "Rank 0 (forward phase) is last in 92 % of the steps of this launch, which costs 42.0 ms "
        "per step (42 %)."
    )


def test_a_rank_without_a_pattern_is_no_straggler():
    for late in (straggler("none", ""), STRAGGLERS.empty()):
        sentence = waiting_answer(waits(42.0, 0.5), late)
        assert sentence.startswith("Rank 0 is last in 92 %")
        assert sentence.endswith("Too few or too irregular to be a straggler.")


def test_when_a_straggler_is_late_is_one_sentence():
    row = {"rank": 1, "pattern": "persistent", "share_late": 0.92, "longest_run": 30}
    row |= {"cost_ns": MS, "period_steps": float("nan")}
    assert when_answer(declared_rows(STRAGGLERS, row)) == (
        "Rank 1 is late in most steps: by 5 % of the step or more in 92 % of them, at most 30 "
        "steps in a row."
    )
    row |= {"pattern": "periodic", "period_steps": 2.0, "share_late": 0.5, "longest_run": 1}
    assert when_answer(declared_rows(STRAGGLERS, row)).startswith(
        "Rank 1 is late every 2 steps: by"
    )
    assert when_answer(straggler("none", "")) == ""


def test_ranks_that_cost_little_are_not_named():
    assert waiting_answer(waits(4.0, 3.0), straggler("persistent", "forward")) == (
        "No rank costs 5 % of the step in this launch. A rank waits 2.00 ms per step for the "
        "others (mean)."
    )
    assert waiting_answer(CAUSED_WAIT.empty(), STRAGGLERS.empty()) == ""


def parts(*backward_ms: float) -> pd.DataFrame:
    return declared_rows(
        BREAKDOWN,
        *(
            {"rank": rank, "part": part, "time_ns": length * MS}
            for rank, backward in enumerate(backward_ms)
            for part, length in (
                ("forward", 20.0),
                ("backward", backward),
                ("blocked", 100.0 - 20.0 - backward - 5.0),
                ("outside", 5.0),
            )
        ),
    )


def test_a_step_begins_with_its_largest_parts():
    # The mean step of the job is a little longer than that of a rank, and other pages show it.
    assert parts_answer(parts(50.0, 30.0), 101.0 * MS) == (
        "A step of this launch takes 101 ms: backward 40 %, blocked 35 %, forward 20 %."
    )
    assert parts_answer(parts(60.0), float("nan")) == (
        "A step of this launch takes 100 ms: backward 60 %, forward 20 %, blocked 15 %."
    )
    alone = parts(70.0)
    alone.loc[alone["part"] == "outside", "time_ns"] = 30 * MS
    assert "outside all phases 24 %" in parts_answer(alone, 124 * MS)
    assert parts_answer(BREAKDOWN.empty(), 1.0) == ""
