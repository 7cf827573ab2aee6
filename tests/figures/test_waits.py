import numpy as np
import pandas as pd
import pytest

from hvdprof.figures import waits as module
from hvdprof.figures.launch import mean_waits
from hvdprof.figures.waits import frame, lateness_map, wait_by_rank, wait_by_tensor
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, COLLECTIVE_ARRIVALS, LATENESS
from tests.builders.analysis import analysis_of
from tests.builders.declared_rows import declared_rows
from tests.builders.run_directory import PassSpec, SegmentSpec

NUM_STEPS = 62


def straggler_run(folder, num_ranks=3, straggler=2):
    """One rank needs 4 ms more in forward in every step; the others wait for it."""
    forward = np.full((num_ranks, NUM_STEPS), 10.0)
    forward[straggler] += 4.0
    segment = SegmentSpec(
        parts_ms={"forward": forward, "backward": 5.0, "blocked": 15.0 - forward + 1.0}
    )
    return analysis_of(folder, [PassSpec(size=num_ranks, segments=[segment])])


@pytest.mark.heavy
def test_the_straggler_has_its_injected_delay(tmp_path):
    figure = lateness_map(straggler_run(tmp_path / "run").table("lateness"))
    cells = figure.data[0]
    assert list(cells.y) == [0, 1, 2]
    assert np.asarray(cells.z)[2] == pytest.approx(4.0, abs=1e-3)
    assert np.asarray(cells.z)[0] == pytest.approx(-2.0, abs=1e-3)
    assert (cells.zmin, cells.zmax) == (-cells.zmax, pytest.approx(4.0, abs=0.1))
    assert figure.layout.xaxis.title.text == "step"


@pytest.mark.heavy
def test_excluded_steps_are_hatched_and_margins_hold_step_times_and_means(tmp_path):
    analysis = straggler_run(tmp_path / "run")
    of_job = analysis.table("job_steps")
    cut = of_job["step"].tolist()[20:23]
    of_job = of_job.assign(steady=~of_job["step"].isin(cut), why="pause")
    lateness = analysis.table("lateness")
    lateness = lateness[~lateness["step"].isin(cut)]
    figure = lateness_map(lateness, of_job, analysis.table("stragglers"))
    cells, course, excluded, means = figure.data
    assert (list(excluded.x), set(excluded.hovertext)) == (cut, {"pause"})
    assert excluded.marker.pattern.shape == "/"
    columns = {step: np.asarray(cells.z)[:, at] for at, step in enumerate(cells.x)}
    assert all(np.isnan(columns[step]).all() for step in cut)
    assert not np.isnan(columns[lateness["step"].iloc[0]]).any()
    assert len(course.x) == len(of_job)
    assert list(means.y) == [0, 1, 2]
    assert means.x[2] == pytest.approx(4.0, abs=1e-2)
    assert means.error_x.array[2] >= 0


@pytest.mark.heavy
def test_of_two_ranks_the_later_one_alone_is_drawn(tmp_path):
    lateness = straggler_run(tmp_path / "run", num_ranks=2, straggler=1).table("lateness")
    cells = lateness_map(lateness).data[0]
    assert list(cells.y) == [lateness.groupby("rank")["lateness_ns"].mean().idxmax()]
    assert np.asarray(cells.z).min() > 0


def test_windows_of_a_light_recording_are_as_wide_as_their_steps():
    rows = [
        {"step": step, "rank": rank, "lateness_ns": rank * 4e6}
        for step in (1, 9)
        for rank in range(3)
    ]
    steps = pd.DataFrame({"step": [0, 1, 9], "dur_ns": 1e7, "num_steps": [1, 8, 4]})
    steps = steps.assign(steady=[False, True, True], why=["warm-up", "", ""])
    figure = lateness_map(declared_rows(LATENESS, *rows), steps)
    cells, _, left_out = figure.data
    assert list(cells.x) == [-0.5, 0.5, 8.5, 12.5]
    assert (list(left_out.x), list(left_out.width), left_out.offset) == ([0], [1], -0.5)


@pytest.mark.heavy
def test_chosen_steps_are_framed(tmp_path):
    figure = lateness_map(straggler_run(tmp_path / "run").table("lateness"))
    (choice,) = frame(figure, 20, 29).layout.shapes
    assert (choice.x0, choice.x1) == (19.5, 29.5)


@pytest.mark.slow
def test_many_steps_are_binned_and_the_axis_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_STEPS", 20)
    figure = lateness_map(straggler_run(tmp_path / "run").table("lateness"))
    assert np.asarray(figure.data[0].z).shape == (3, 20)
    assert "binned" in figure.layout.xaxis.title.text
    assert "in 20, the largest of each" in figure.layout.xaxis.title.text


def test_without_recordings_it_says_so():
    figure = lateness_map(LATENESS.empty())
    assert "No launch" in figure.layout.annotations[0].text


HOSTILE = "<img src=x onerror=alert(1)>"


def caused_wait_row(rank, fair_ms, waited_ms=1.0):
    return {
        "pass_id": "p",
        "segment": "s",
        "rank": rank,
        "num_steps": 10,
        "share_last": 0.5,
        "share_undecided": 0.0,
        "waited_ns": waited_ms * 1e6,
        "wait_as_last_ns": fair_ms * 1e6 / 2,
        "caused_wait_ns": fair_ms * 1e6,
        "cost_ns": 0.0,
        "cost_share": 0.0,
    }


def arrival_row(tensor, step, wait_ms, last_rank=1):
    return {
        "pass_id": "p",
        "segment": "s",
        "step": step,
        "tensor": tensor,
        "num_ranks": 2,
        "first_ns": 0,
        "second_last_ns": 0,
        "last_ns": round(wait_ms * 1e6),
        "last_rank": last_rank,
        "wait_sum_ns": round(wait_ms * 1e6),
        "decided": True,
    }


def test_a_bar_a_rank_and_a_measure():
    figure = wait_by_rank(
        CAUSED_WAIT.frame([caused_wait_row(0, 3.0), caused_wait_row(1, 0.5, waited_ms=4.0)])
    )
    bars = {bar.name: list(bar.y) for bar in figure.data}
    assert bars["wait of the rank itself"] == pytest.approx([1.0, 4.0])
    assert bars["caused wait (Shapley)"] == pytest.approx([3.0, 0.5])
    assert bars["wait as last rank"] == pytest.approx([1.5, 0.25])
    assert figure.layout.xaxis.title.text == "rank"


def test_of_many_ranks_those_that_caused_most_wait_are_shown():
    figure = wait_by_rank(
        CAUSED_WAIT.frame([caused_wait_row(rank, fair_ms=rank) for rank in range(100)])
    )
    assert list(figure.data[0].x) == [str(rank) for rank in range(60, 100)]
    assert figure.layout.xaxis.title.text == "rank (the 40 with the largest caused wait of 100)"


def test_tensors_are_ordered_by_their_mean_wait_and_name_their_last_rank():
    rows = [
        arrival_row("a", 0, 1.0),
        arrival_row("a", 1, 3.0),
        arrival_row("b", 0, 5.0, last_rank=0),
        arrival_row("b", 1, 7.0),
        arrival_row("b", 2, 6.0, last_rank=0),
    ]
    waits = mean_waits(COLLECTIVE_ARRIVALS.frame(rows))
    assert waits["tensor"].tolist() == ["b", "a"]
    assert waits["wait_ns"].tolist() == [6e6, 2e6]
    assert waits["most_last"].tolist() == [0, 1]
    assert waits["most_last_share"].tolist() == pytest.approx([2 / 3, 1.0])


def test_names_of_tensors_stay_text():
    figure = wait_by_tensor(COLLECTIVE_ARRIVALS.frame([arrival_row(HOSTILE, 0, 1.0)]))
    assert "<img" not in figure.to_json().replace("\\u003c", "<")
    assert "&lt;img" in figure.layout.yaxis.ticktext[0]


def test_what_all_names_begin_with_is_said_once():
    rows = [arrival_row(f"allreduce.net.{name}", 0, 1.0) for name in ("conv.weight", "conv.bias")]
    axis = wait_by_tensor(COLLECTIVE_ARRIVALS.frame(rows)).layout.yaxis
    assert axis.ticktext == ("weight", "bias")
    assert axis.title.text == "allreduce.net.conv.…"


@pytest.mark.parametrize(
    ("draw", "table"), [(wait_by_rank, CAUSED_WAIT), (wait_by_tensor, COLLECTIVE_ARRIVALS)]
)
def test_without_rows_it_says_so(draw, table):
    assert isinstance(table.empty(), pd.DataFrame)
    assert draw(table.empty()).layout.annotations[0].text
