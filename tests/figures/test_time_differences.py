import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.causes.waterfall_diff import waterfall_diff
from hvdprof.figures.palette import PART_COLOURS
from hvdprof.figures.time_differences import history_figure, losses_figure, waterfall_difference
from hvdprof.model.causes import CAUSES, PARTS, PAUSE, STRAGGLER
from hvdprof.model.results.comparison import HISTORY, STEP_TIME, History
from hvdprof.model.tables.scaling_tables import LOSSES, SCALING
from hvdprof.model.tables.waterfall_tables import WATERFALL
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import cell, loss_rows, two_toggles, typical_losses


def drawn(losses, scaling=()):
    scaling = SCALING.frame(list(scaling)) if scaling else SCALING.empty()
    return losses_figure(LOSSES.frame(list(losses)), scaling)


@pytest.mark.heavy
def test_a_bar_a_cell_and_a_colour_a_part():
    figure = drawn(typical_losses(), two_toggles())
    by_colour = {bar.marker.color: bar for bar in figure.data}
    blocked = by_colour[PART_COLOURS["blocked"]]
    assert blocked.name == "blocked"
    assert list(blocked.y) == [
        "resnet18 np=2<br>Horovod",
        "resnet18 np=2<br>Adasum",
    ]
    assert list(blocked.x) == pytest.approx([3.5 / 31.0, 18.6 / 45.6])
    assert set(by_colour) == {PART_COLOURS[part] for part in PARTS}


def test_the_parts_of_a_bar_sum_to_its_loss():
    losses = LOSSES.frame(typical_losses())
    figure = drawn(typical_losses())
    of_plain = sum(bar.x[0] for bar in figure.data)
    assert of_plain == pytest.approx(
        losses.loc[losses["reduction"] == "average", "lost_share"].sum()
    )


def test_an_oversubscribed_cell_is_pale_and_named():
    figure = drawn(loss_rows(cell(np=4), blocked=9.0), [cell(np=4, oversubscribed=True)])
    blocked = next(bar for bar in figure.data if bar.name == "blocked")
    assert blocked.y[0] == "resnet18 np=4<br>Horovod<br><i>oversubscribed</i>"
    assert blocked.marker.opacity == (0.4,)


def test_hover_says_milliseconds_and_percent():
    figure = drawn(loss_rows(cell(), blocked=3.5))
    blocked = next(bar for bar in figure.data if bar.name == "blocked")
    assert blocked.hovertext[0] == ("<b>blocked</b><br>3.50 ms per step, 11.3 % of the step")


def test_nothing_lost_is_said():
    assert "No cell has a baseline" in drawn([]).layout.annotations[0].text


def test_a_name_is_never_html_and_leaves_room_for_its_bar():
    figure = drawn(loss_rows(cell(model="<i>" + "x" * 180), blocked=3.5))
    (label,) = {bar.y[0] for bar in figure.data if len(bar.y)}
    assert label.startswith("&lt;i&gt;xxx")
    assert len(label) < 70


NAN = float("nan")


def rows(time_ms, low_ms, high_ms):
    times = {"time_ns": time_ms * 1e6, "time_low_ns": low_ms * 1e6, "time_high_ns": high_ms * 1e6}
    named = {"ranks": "1", "phase": "data", "pattern": "persistent"}
    return declared_rows(
        WATERFALL,
        *(
            {"model": "m", "np": 2, "engine": "horovod", "term": term}
            | times
            | (named if term in (STRAGGLER, PAUSE) else {})
            for term in (*CAUSES, "residual")
        ),
    )


def test_the_interval_of_a_difference_is_made_of_both():
    found = waterfall_diff(rows(10.0, 7.0, 14.0), rows(20.0, 17.0, 25.0))
    assert found["term"].tolist() == list(CAUSES)
    row = found.iloc[0]
    assert row["difference_ns"] == 10e6
    assert row["low_ns"] == pytest.approx(10e6 - math.hypot(3e6, 4e6))
    assert row["high_ns"] == pytest.approx(10e6 + math.hypot(5e6, 3e6))


@pytest.mark.slow
@given(st.floats(-50, 50), st.floats(0, 9), st.floats(0, 9), st.floats(-50, 50), st.floats(0, 9))
def test_exchanging_both_turns_the_interval_round(a, below, above, b, width):
    one, other = rows(a, a - below, a + above), rows(b, b - width, b + width)
    there, back = (waterfall_diff(*pair).iloc[0] for pair in ((one, other), (other, one)))
    assert there["low_ns"] == pytest.approx(-back["high_ns"], abs=1)
    assert there["low_ns"] <= there["difference_ns"] <= there["high_ns"]


def test_without_an_interval_there_is_none_and_nothing_is_judged():
    found = waterfall_diff(rows(10.0, NAN, NAN), rows(20.0, 17.0, 25.0))
    assert found["low_ns"].isna().all()
    assert not found["significant"].any()
    assert set(waterfall_difference(found).data[0].marker.opacity) == {0.4}


@pytest.mark.heavy
def test_what_may_be_chance_is_pale():
    sure = waterfall_diff(rows(10.0, 9.0, 11.0), rows(20.0, 19.0, 21.0))
    assert set(waterfall_difference(sure).data[0].marker.opacity) == {1.0}
    unsure = waterfall_diff(rows(10.0, 1.0, 30.0), rows(20.0, 19.0, 21.0))
    assert set(waterfall_difference(unsure).data[0].marker.opacity) == {0.4}
    assert list(waterfall_difference(sure).data[0].x) == pytest.approx([10.0] * len(CAUSES))


def test_a_cell_without_waterfall_cannot_be_compared():
    found = waterfall_diff(WATERFALL.empty(), rows(1.0, 1.0, 1.0))
    assert "no recorded steps" in waterfall_difference(found).layout.annotations[0].text


def row(run, value, **more):
    cell = {"model": "<b>m</b>", "np": 2, "engine": "horovod", "compression": "none"}
    return cell | {"reduction": "average", "run": run, "value": value} | more


@pytest.mark.heavy
def test_a_change_is_marked_with_its_size_and_names_are_no_html():
    rows = declared_rows(
        HISTORY,
        row("a", 50e6, low=49e6, high=51e6),
        row("b", 55e6, low=54e6, high=56e6, is_change=True, change=0.1),
    )
    figure = history_figure(History(STEP_TIME, "", rows))
    (trace,) = figure.data
    assert trace.text == ("", "+10.0 %")
    assert list(trace.y) == [50.0, 55.0]
    assert trace.name == "&lt;b&gt;m&lt;/b&gt; on 2 ranks"
    assert figure.layout.yaxis.title.text == "step time, ms"


def test_without_rows_it_says_so():
    figure = history_figure(History(STEP_TIME, "", HISTORY.empty()))
    assert "No cell" in figure.layout.annotations[0].text
