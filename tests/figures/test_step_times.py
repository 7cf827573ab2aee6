import numpy as np
import pytest

from hvdprof.figures import step_times as module
from hvdprof.figures.palette import PART_COLOURS
from hvdprof.figures.step_times import (
    parts_by_rank,
    parts_over_steps,
    step_time_course,
    step_time_distribution,
    steps_of_ranks,
)
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.model.tables.collective_tables import BREAKDOWN
from hvdprof.model.tables.run_tables import STEPS
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES
from tests.builders.traced_run import step_row

PARTS_MS = {
    "data": 1.0,
    "forward": 5.0,
    "backward": 8.0,
    "blocked": 4.0,
    "before_update": 0.4,
    "optimizer": 0.6,
    "outside": 1.0,
}


def breakdown_rows(rank):
    return [
        {
            "pass_id": "p",
            "segment": "s",
            "rank": rank,
            "part": part,
            "time_ns": time_ms * 1e6,
            "time_low_ns": time_ms * 0.9e6,
            "time_high_ns": time_ms * 1.1e6,
            "share": time_ms / 20,
        }
        for part, time_ms in PARTS_MS.items()
    ]


def test_every_part_of_every_rank_in_its_colour():
    rows = [*breakdown_rows(1), *breakdown_rows(0)]
    # One of 20 ms.
    rows[0]["time_ns"] += 4e6
    figure = parts_by_rank(BREAKDOWN.frame(rows))
    by_colour = {bar.marker.color: bar for bar in figure.data}
    assert set(by_colour) == {PART_COLOURS[part] for part in RECORDED_PARTS}
    blocked = by_colour[PART_COLOURS["blocked"]]
    assert blocked.name == "blocked"
    assert list(blocked.x) == [0, 1]
    assert list(blocked.y) == pytest.approx([4.0, 4.0])
    assert "4.00 ms (3.60 to 4.40)" in blocked.hovertext[0]
    assert sum(bar.y[0] for bar in figure.data) == pytest.approx(20.0)


def test_ranks_that_are_alike_have_one_bar():
    rows = [*breakdown_rows(0), *breakdown_rows(1)]
    rows[-1]["time_ns"] += 1e6
    figure = parts_by_rank(BREAKDOWN.frame(rows))
    assert all(len(bar.x) == 1 for bar in figure.data)
    assert figure.layout.xaxis.title.text == "rank (all 2 are alike within 5 % of the step)"


def test_the_culprit_and_the_median_rank_have_figures_and_ranks_alike_share_one():
    rows = [
        step_row(rank, step, blocked_ns=blocked * 1_000_000, warmup=False)
        for rank, blocked in enumerate((4, 1, 3))
        for step in range(3)
    ]
    found = steps_of_ranks(STEPS.frame(rows))
    assert [*found] == ["Steps of rank 1: longest own work", "Steps of rank 2: median own work"]
    assert set(found["Steps of rank 1: longest own work"]["rank"]) == {1}
    named = steps_of_ranks(STEPS.frame(rows), culprit=2)
    assert [*named] == ["Steps of rank 2: highest cost", "Steps of rank 1: median own work"]
    assert [*steps_of_ranks(STEPS.frame(rows[:3]))] == ["Steps of rank 0"]
    alike = STEPS.frame([step_row(rank, step, warmup=False) for rank in (0, 1) for step in (0, 1)])
    ((title, whole),) = steps_of_ranks(alike).items()
    assert title == "Steps: mean of 2 ranks, alike within 5 % of the step"
    assert len(whole) == 4
    assert steps_of_ranks(STEPS.empty()) == {}


def test_over_steps_parts_are_means_over_ranks_and_warmup_is_shaded():
    rows = [step_row(rank, step) for rank in (0, 1) for step in (0, 1, 2)]
    rows[0]["forward_ns"] = 9_000_000
    figure = parts_over_steps(STEPS.frame(rows))
    forward = next(area for area in figure.data if area.name == "forward")
    assert list(forward.y) == pytest.approx([7.0, 5.0, 5.0])
    (shade,) = figure.layout.shapes
    assert (shade.x0, shade.x1) == (-0.5, 0.5)


def test_steps_that_do_not_count_later_are_shaded_alone():
    rows = [step_row(0, step) for step in range(6)]
    for row, warmup in zip(rows, (True, False, False, True, True, False), strict=True):
        row["warmup"] = warmup
    figure = parts_over_steps(STEPS.frame(rows))
    assert [(shade.x0, shade.x1) for shade in figure.layout.shapes] == [(-0.5, 0.5), (2.5, 4.5)]
    assert [note.text for note in figure.layout.annotations] == ["warm-up"]


def test_bars_of_a_light_recording_are_as_wide_as_their_windows():
    rows = [step_row(0, step) | {"num_steps": size} for step, size in ((0, 1), (1, 8), (9, 4))]
    rows[0]["warmup"] = True
    figure = parts_over_steps(STEPS.frame(rows))
    bars = figure.data[0]
    assert (list(bars.x), list(bars.width), bars.offset) == ([0, 1, 9], [1, 8, 4], -0.5)
    assert list(bars.hovertext) == ["step 0", "steps 1 to 8, mean", "steps 9 to 12, mean"]
    assert "a window of steps with their mean" in figure.layout.xaxis.title.text
    assert [(shade.x0, shade.x1) for shade in figure.layout.shapes] == [(-0.5, 0.5)]


def test_parts_too_small_to_be_seen_take_no_room_in_the_legend():
    rows = [step_row(0, step) | {"optimizer_ns": 1} for step in range(3)]
    named = {bar.name: bar.showlegend for bar in parts_over_steps(STEPS.frame(rows)).data}
    assert (named["forward"], named["optimizer"]) == (True, False)


def test_many_steps_are_binned_and_the_axis_says_so(monkeypatch):
    monkeypatch.setattr(module, "_MOST_STEPS", 4)
    rows = [step_row(0, step) for step in range(1, 11)]
    figure = parts_over_steps(STEPS.frame(rows))
    assert len(figure.data[0].x) == 4
    assert "means of 10 steps in 4" in figure.layout.xaxis.title.text
    assert not figure.layout.shapes


@pytest.mark.parametrize(("draw", "table"), [(parts_by_rank, BREAKDOWN), (parts_over_steps, STEPS)])
def test_without_rows_it_says_so(draw, table):
    assert "no recorder files" in draw(table.empty()).layout.annotations[0].text


def job_step_rows(pass_id, times_ms, num_cut=0):
    return [
        {
            "pass_id": pass_id,
            "segment": "s",
            "step": step,
            "end_ns": 0,
            "dur_ns": round(time * 1e6),
            "num_steps": 1,
            "steady": step >= num_cut,
        }
        for step, time in enumerate(times_ms)
    ]


LAUNCH = LAUNCHES.frame(
    [
        {
            "pass_id": "p",
            "segment": "s",
            "num_steps": 3,
            "num_cut_steps": 2,
            "step_time_ns": 10e6,
            "step_time_error_ns": 1e5,
            "num_effective_steps": 3.0,
            "num_turns": 0,
            "drift": 0.1,
            "drift_error": 0.02,
            "steady": True,
        }
    ]
)


def test_an_outline_a_launch_of_its_steady_steps():
    rows = [*job_step_rows("a", [50, 10, 11, 12], 1), *job_step_rows("<b>", [20, 21])]
    figure = step_time_distribution(JOB_STEPS.frame(rows))
    assert {line.name: int(np.sum(line.y)) for line in figure.data} == {
        "a": 3,
        "&lt;b&gt;": 2,
    }
    assert figure.data[0].x[0] == pytest.approx(10.0)


def test_cut_steps_are_apart_and_the_line_drifts_about_the_mean():
    figure = step_time_course(JOB_STEPS.frame(job_step_rows("p", [30, 20, 10, 9, 11], 2)), LAUNCH)
    cut, steady, line = figure.data
    assert (list(cut.x), list(cut.y)) == ([0, 1], pytest.approx([30, 20]))
    assert list(steady.x) == [2, 3, 4]
    assert list(line.y) == pytest.approx([9.5, 10.5])
    assert line.name == "mean 10.0 ms,<br>drift 10.0 % (standard error 2.0 %)"


def test_a_drift_within_two_standard_errors_is_not_drawn():
    rows = job_step_rows("p", [10, 9, 11])
    line = step_time_course(JOB_STEPS.frame(rows), LAUNCH.assign(drift_error=0.06)).data[-1]
    assert list(line.y) == pytest.approx([10, 10])
    assert line.name == "mean 10.0 ms"


def test_a_distribution_has_twenty_bins_or_more():
    rows = job_step_rows("a", [10.0, 10.5, 11.0, 14.0])
    assert len(step_time_distribution(JOB_STEPS.frame(rows)).data[0].x) == 21


def test_of_many_steps_the_longest_of_neighbours_is_drawn(monkeypatch):
    monkeypatch.setattr(module, "_MOST_POINTS", 5)
    times = [10.0] * 20
    times[7] = 99.0
    figure = step_time_course(JOB_STEPS.frame(job_step_rows("p", times)), LAUNCHES.empty())
    assert list(figure.data[0].y) == pytest.approx([10, 99, 10, 10, 10])
    assert "longest of neighbouring steps" in figure.layout.xaxis.title.text


def test_without_steps_it_says_so():
    assert step_time_distribution(JOB_STEPS.empty()).layout.annotations
    assert step_time_course(JOB_STEPS.empty(), LAUNCHES.empty()).layout.annotations
