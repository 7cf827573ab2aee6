import numpy as np
import pytest

from hvdprof.figures import step_times as module
from hvdprof.figures.step_times import step_time_course, step_time_distribution
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES


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
