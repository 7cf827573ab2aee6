import plotly.graph_objects as go

from hvdprof.figures.timeline.timeline_overlay import let_measure, mark_measured, mark_selected


def test_a_selected_event_is_framed_on_its_lane() -> None:
    figure = go.Figure()

    mark_selected(figure, 3, 20.0, 1.5)

    (frame,) = figure.layout.shapes
    assert (frame.type, frame.x0, frame.x1) == ("rect", 20.0, 21.5)
    assert frame.y0 < 3 < frame.y1
    assert frame.y1 - frame.y0 < 1


def test_a_measured_span_is_labelled_with_its_length() -> None:
    figure = go.Figure()

    mark_measured(figure, 20.0, 32.5)

    (span,) = figure.layout.shapes
    assert (span.x0, span.x1) == (20.0, 32.5)
    assert [note.text for note in figure.layout.annotations] == ["<b>12.5 ms</b>"]


def test_a_drag_measures_along_the_axis_of_time_alone() -> None:
    figure = go.Figure()

    let_measure(figure)

    assert figure.layout.dragmode == "drawrect"
    assert figure.layout.newshape.drawdirection == "horizontal"
