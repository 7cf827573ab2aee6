import itertools
import json
import math

import pytest

from hvdprof.figures.palette import LINE_COLOURS, NEUTRAL_COLOUR
from hvdprof.figures.scaling_curve import scaling_curve
from hvdprof.model.tables.scaling_tables import SCALING
from tests.builders.finished_analysis import NAN, cell, torch_cell, two_toggles


def drawn(rows):
    figure = scaling_curve(SCALING.frame(rows))
    shown = [one for one in figure.data if one.showlegend is not False or one.line.width]
    return figure, {trace.name: trace for trace in shown if trace.fill != "toself"}


@pytest.mark.heavy
def test_one_line_a_configuration_and_the_ideal():
    _, lines = drawn(two_toggles())
    assert list(lines) == [
        "ideal",
        "resnet18 Horovod",
        "resnet18 fp16",
        "resnet18 Adasum",
        "oversubscribed",
    ]
    plain = lines["resnet18 Horovod"]
    assert list(plain.x) == [1, 2]
    assert list(plain.y) == [0.982, 0.842]


def test_intervals_reach_from_low_to_high():
    _, lines = drawn([cell(efficiency=0.574, efficiency_low=0.524, efficiency_high=0.608)])
    bars = lines["resnet18 Horovod"].error_y
    assert [round(value, 6) for value in bars.arrayminus] == [0.05]
    assert [round(value, 6) for value in bars.array] == [0.034]


@pytest.mark.heavy
def test_a_band_reaches_over_the_intervals_of_what_is_not_oversubscribed():
    figure, _ = drawn(two_toggles())
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert list(bands[0].x) == [1, 2, 2, 1]
    assert list(bands[0].y) == [0.995, 0.865, 0.819, 0.969]
    assert len(bands) == 3


@pytest.mark.heavy
def test_bands_that_overlap_are_not_filled():
    near = [cell(), cell(compression="fp16", efficiency=0.85), cell(reduction="adasum")]
    apart = cell(engine="ddp", efficiency=0.5, efficiency_low=0.45, efficiency_high=0.55)
    figure, _ = drawn([*near, apart])
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert [trace.name for trace in bands] == ["resnet18 DDP"]


@pytest.mark.heavy
def test_up_to_four_lines_carry_their_names_apart_from_each_other():
    rows = [cell(efficiency=0.8 + 0.001 * place, model=f"m{place}") for place in range(4)]
    figure, _ = drawn(rows)
    labels = [one for one in figure.layout.annotations if one.text != "ideal"]
    assert [one.text for one in labels] == ["m3", "m2", "m1", "m0"]
    # Lines come from the left, so that no name covers its own.
    assert {one.xanchor for one in labels} == {"left"}
    gaps = [above.y - below.y for above, below in itertools.pairwise(labels)]
    assert min(gaps) * (430 - 90) / 1.2 >= 16
    assert not any(trace.showlegend for trace in figure.data)
    many, _ = drawn([*rows, cell(model="m4")])
    assert not many.layout.annotations
    assert any(trace.showlegend is not False and trace.name == "ideal" for trace in many.data)


def test_the_axis_has_room_for_the_name_behind_the_last_point():
    figure, _ = drawn([cell(np=1), cell(np=2)])
    begin, end = figure.layout.xaxis.range
    (label,) = [one for one in figure.layout.annotations if one.text != "ideal"]
    assert (end - math.log10(2)) / (end - begin) * 320 >= 7 * len(label.text)


@pytest.mark.heavy
def test_oversubscribed_points_are_hollow_and_off_the_line():
    figure, _ = drawn(two_toggles())
    hollow = [trace for trace in figure.data if trace.marker.symbol == "circle-open"]
    assert [list(trace.x) for trace in hollow if trace.name == "resnet18 Horovod"] == [[4]]
    assert all(trace.mode == "markers" for trace in hollow)
    assert "excluded from scaling statements" in hollow[0].hovertext[0]


def test_no_legend_of_oversubscribed_where_nothing_is():
    _, lines = drawn([cell()])
    assert "oversubscribed" not in lines


def test_the_baseline_is_not_a_configuration_but_cells_keep_their_colours():
    _, lines = drawn([torch_cell(), cell(), cell(compression="fp16")])
    assert [line.line.color for line in lines.values()][1:] == list(LINE_COLOURS[:2])


@pytest.mark.heavy
def test_axes_have_names_and_ticks_at_the_measured_sizes():
    figure, _ = drawn(two_toggles())
    assert figure.layout.xaxis.title.text == "ranks (np)"
    assert list(figure.layout.xaxis.tickvals) == [1, 2, 4]
    assert figure.layout.yaxis.title.text == "scaling efficiency"
    assert figure.layout.yaxis.tickformat == ".0%"


def test_hover_says_the_numbers_with_their_units():
    _, lines = drawn([cell()])
    assert lines["resnet18 Horovod"].hovertext[0] == (
        "<b>resnet18, np=2</b> Horovod<br>efficiency 84.2 ± 2.3 % against torch np=1<br>"
        "1,031 samples/s<br>blocked for 11.3 % of the step"
    )


def test_a_cell_without_efficiency_is_left_out_and_an_empty_figure_says_so():
    figure, lines = drawn([cell(efficiency=NAN)])
    assert not lines
    assert figure.layout.annotations[0].text == "No efficiency was measured."


def test_one_size_has_no_scaling_and_the_figure_says_so():
    alone = cell(np=2, efficiency=1.0, baseline="horovod np=2")
    toggled = cell(np=2, efficiency=0.9, baseline="horovod np=2", compression="fp16")
    figure, lines = drawn([alone, toggled])
    assert not lines
    assert figure.layout.annotations[0].text == (
        "One number of ranks alone: scaling efficiency requires a second one, or a baseline."
    )


def test_a_model_of_one_size_is_left_out_beside_one_of_several():
    alone = cell(model="vgg16", np=2, efficiency=1.0, baseline="horovod np=2")
    base = cell(np=2, efficiency=1.0, baseline="horovod np=2")
    scaled = cell(np=12, efficiency=0.9, baseline="horovod np=2")
    _, lines = drawn([alone, base, scaled])
    assert list(lines) == ["ideal", "resnet18 Horovod"]
    assert list(lines["resnet18 Horovod"].x) == [2, 12]


def test_one_rank_against_plain_torch_is_a_point():
    _, lines = drawn([cell(np=1, efficiency=0.98, baseline="torch np=1")])
    assert list(lines["resnet18 Horovod"].y) == [0.98]


def test_a_cell_without_interval_is_a_point_without_bar():
    _, lines = drawn([cell(efficiency_low=NAN, efficiency_high=NAN)])
    assert list(lines["resnet18 Horovod"].error_y.array) == [0.0]


@pytest.mark.heavy
def test_the_figure_is_json():
    figure, _ = drawn(two_toggles())
    assert json.loads(figure.to_json())["data"]


@pytest.mark.heavy
def test_no_two_lines_differ_by_their_colour_alone():
    rows = [cell(model=f"m{number}") for number in range(12)]
    _, lines = drawn(rows)
    looks = [(line.line.color, line.marker.symbol) for line in list(lines.values())[1:]]
    assert len(set(looks)) == 12
    assert len({symbol for _, symbol in looks[:5]}) == 5


def test_a_name_is_never_html():
    figure, lines = drawn([cell(model="<b>a</b>&b.py")])
    assert list(lines)[1] == "&lt;b&gt;a&lt;/b&gt;&amp;b.py Horovod"
    assert "<b>a</b>" not in str(figure)


def test_the_axis_ends_at_120_percent_with_arrows_for_what_lies_beyond():
    rows = [
        cell(np=2, efficiency=0.98, efficiency_low=0.7, efficiency_high=1.3),
        cell(np=4, efficiency=2.1, efficiency_low=1.9, efficiency_high=2.3),
        cell(np=8, efficiency=0.9, efficiency_low=0.85, efficiency_high=0.95),
    ]
    figure, _ = drawn(rows)
    assert list(figure.layout.yaxis.range) == [0, 1.2]
    (arrows,) = [trace for trace in figure.data if trace.marker.symbol == "triangle-up"]
    assert (list(arrows.x), list(arrows.y)) == ([2, 4], [1.2, 1.2])
    assert "98 ± 30 %" in arrows.hovertext[0]


@pytest.mark.heavy
def test_points_with_a_wide_interval_are_grey_and_named_once():
    rows = [
        cell(np=2, efficiency=0.8, efficiency_low=0.7, efficiency_high=0.9),
        cell(np=4, efficiency=0.8, efficiency_low=0.78, efficiency_high=0.82),
    ]
    _, lines = drawn(rows)
    assert list(lines["resnet18 Horovod"].marker.color) == [NEUTRAL_COLOUR, LINE_COLOURS[0]]
    assert "95 % CI wider than ±10 % of the value" in lines
    _, narrow = drawn(rows[1:])
    assert "95 % CI wider than ±10 % of the value" not in narrow
