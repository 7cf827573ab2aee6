import pytest

from hvdprof.figures.toggle_effects import learning_curves, toggle_speedups
from hvdprof.model.tables.run_tables import SEGMENTS, STEPS
from hvdprof.model.tables.waterfall_tables import TOGGLES
from tests.builders.traced_run import segment_row, step_row

NAN = float("nan")


def toggle_row(speedup, low, high, **values):
    known = dict.fromkeys(TOGGLES.column_names, NAN)
    row = known | {
        "model": "<i>net</i>",
        "np": 2,
        "toggle": "fp16",
        "num_pairs": 3,
        "speedup": speedup,
        "speedup_low": low,
        "speedup_high": high,
        "verdict": "pays",
        "reason": "",
    }
    return row | values


@pytest.mark.heavy
def test_speedups_with_their_intervals():
    figure = toggle_speedups(
        TOGGLES.frame([toggle_row(1.2, 1.1, 1.4), toggle_row(0.9, NAN, NAN, toggle="adasum")])
    )
    (points,) = figure.data
    assert list(points.x) == [1.2, 0.9]
    assert list(points.error_x.array) == pytest.approx([0.2, 0.0])
    assert points.y[0] == "&lt;i&gt;net&lt;/i&gt; np=2, fp16"
    assert "fp16: pays" in points.hovertext[0]


def test_an_interval_of_two_repeats_leaves_the_points_apart():
    figure = toggle_speedups(
        TOGGLES.frame([toggle_row(1.2, 0.02, 74.0), toggle_row(0.9, 0.8, 1.0, toggle="adasum")])
    )
    low, high = figure.layout.xaxis.range
    assert 0 <= low < 0.8
    assert 1.2 < high < 2.5
    assert "not known (too noisy)" in figure.data[0].hovertext[0]


@pytest.mark.heavy
def test_a_narrow_interval_is_shown_in_full():
    figure = toggle_speedups(TOGGLES.frame([toggle_row(1.2, 1.1, 1.4)]))
    low, high = figure.layout.xaxis.range
    assert low < 1.0
    assert high > 1.4


def test_what_could_not_be_compared_is_left_out():
    figure = toggle_speedups(TOGGLES.frame([toggle_row(NAN, NAN, NAN, verdict="not comparable")]))
    assert "No toggle" in figure.layout.annotations[0].text


def curves(*segments):
    of_all = SEGMENTS.frame([segment_row(mode="throughput", **segment) for segment in segments])
    rows = [
        step_row(rank, step, segment=segment["segment"], loss=10.0 - step - rank)
        for segment in segments
        for rank in (0, 1)
        for step in range(4)
    ]
    return learning_curves(STEPS.frame(rows), of_all, "resnet18", 2)


def test_a_line_a_launch_a_colour_a_configuration_over_samples_of_all_ranks():
    plain, again, fp16 = curves(
        {"segment": "a"}, {"segment": "b"}, {"segment": "c", "compression": "fp16"}
    ).data
    assert list(plain.x) == [32, 64, 96, 128]
    assert list(plain.y) == pytest.approx([9.5, 8.5, 7.5, 6.5])
    assert plain.line.color == again.line.color != fp16.line.color
    assert (plain.showlegend, again.showlegend) == (True, False)
    assert (plain.name, fp16.name) == ("Horovod", "fp16")


def test_other_cells_are_left_out_and_nothing_is_said_to_be_nothing():
    assert "No training loss" in curves({"segment": "a", "size": 4}).layout.annotations[0].text


def test_curves_differ_by_more_than_their_colour():
    figure = curves({"segment": "a"}, {"segment": "c", "compression": "fp16"})
    assert len({trace.line.dash for trace in figure.data}) == 2
