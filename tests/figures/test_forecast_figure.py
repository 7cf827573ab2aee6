import dataclasses

import numpy as np
import pytest

from hvdprof.figures.forecast_figure import forecast_causes, forecast_curve
from hvdprof.figures.palette import CAUSE_COLOURS
from hvdprof.model.causes import EXPOSED_TRANSFER
from hvdprof.model.results.forecast import MEASURED
from hvdprof.model.tables.scaling_tables import SCALING
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_forecast import SIZES, finished_forecast


def scaling_rows():
    cell = {"model": "resnet50", "engine": "horovod", "compression": "none", "reduction": "average"}
    return declared_rows(
        SCALING,
        *(cell | {"np": size, "efficiency": 1 - 0.02 * size} for size in (1, 2, 4)),
        cell | {"np": 8, "efficiency": 0.4, "oversubscribed": True},
        cell | {"np": 2, "efficiency": 0.9, "model": "vgg16"},
    )


def traces(figure, name):
    return [trace for trace in figure.data if trace.name and name in trace.name]


def test_the_median_lies_in_both_bands():
    figure = forecast_curve(finished_forecast(), SCALING.empty())

    wide, narrow, median = figure.data[:3]
    assert tuple(median.x) == SIZES
    number = len(SIZES)
    for band in (wide, narrow):
        upper, lower = np.array(band.y[:number]), np.array(band.y[number:][::-1])
        assert (lower <= np.array(median.y)).all()
        assert (np.array(median.y) <= upper).all()
    assert max(wide.y) > max(narrow.y)


@pytest.mark.heavy
def test_only_the_sizes_of_the_fit_are_measured_points():
    (measured,) = traces(forecast_curve(finished_forecast(), scaling_rows()), "measured")

    assert list(measured.x) == [1, 2, 4]
    assert list(measured.y) == pytest.approx([0.98, 0.96, 0.92])


def test_markers_have_the_colour_of_the_dominating_cause():
    figure = forecast_curve(finished_forecast(), SCALING.empty())

    (median,) = traces(figure, "forecast (50")
    assert set(median.marker.color) == {CAUSE_COLOURS[EXPOSED_TRANSFER]}
    assert traces(figure, "limited by exposed transfer")


def test_each_network_has_a_line_and_the_knee_is_marked():
    figure = forecast_curve(
        finished_forecast(("1Gbit", "25Gbit"), losses=(0.12, 0.05)), SCALING.empty()
    )

    assert [trace.name for trace in figure.data if trace.mode == "lines+markers"] == [
        "1Gbit (50 and 90 % band)",
        "25Gbit (50 and 90 % band)",
    ]
    (note,) = figure.layout.annotations
    # Texts on a logarithmic axis are placed by the logarithm: 16 would stretch it to 10^16.
    assert (note.text, note.x) == ("knee 16", pytest.approx(np.log10(16)))
    low, high = figure.layout.xaxis.range
    assert low < np.log10(SIZES[0])
    assert np.log10(SIZES[-1]) < high < np.log10(2 * SIZES[-1])
    assert [shape.y0 for shape in figure.layout.shapes if shape.y0 == shape.y1] == [0.8]


def test_an_open_band_reaches_down_to_the_axis():
    wide = forecast_curve(finished_forecast(is_open=True), SCALING.empty()).data[0]

    assert min(wide.y) == 0.0
    assert not np.isnan(np.array(wide.y)).any()


def test_causes_of_a_size_sum_to_the_lost_efficiency():
    forecast = finished_forecast()

    figure = forecast_causes(forecast, MEASURED)

    lost = np.sum([trace.y for trace in figure.data], axis=0)
    assert lost == pytest.approx(1 - forecast.rows["efficiency_mean"].to_numpy())
    assert next(trace.name for trace in figure.data) == "exposed transfer"


def test_a_network_without_causes_is_said():
    figure = forecast_causes(finished_forecast(), "400Gbit")

    assert figure.layout.annotations[0].text == "The forecast has no causes."


def test_the_legend_says_what_is_assumed():
    made = finished_forecast()
    question = dataclasses.replace(made.question, settings={"compression": "fp16"})

    figure = forecast_curve(dataclasses.replace(made, question=question), SCALING.empty())

    assert traces(figure, "forecast with compression=fp16 (50 and 90 % band)")
