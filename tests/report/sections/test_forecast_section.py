import dataclasses
import io
import math

import pytest

from hvdprof import units
from hvdprof.model.causes import JITTER
from hvdprof.model.results.forecast import StoredForecast
from hvdprof.model.run import RunAnalysis
from hvdprof.report.document.html_report import html_page
from hvdprof.report.document.markdown_report import MarkdownReporter
from hvdprof.report.sections.forecast_page import forecast_sections
from hvdprof.report.sections.forecast_section import network_rows, span
from tests.builders.finished_analysis import analysis
from tests.builders.finished_forecast import finished_forecast


def with_forecasts() -> RunAnalysis:
    """Two forecasts of one model, of which the second is the latest."""
    earlier, later = finished_forecast(sizes=(8,)), finished_forecast(sizes=(8, 64))
    stored = (StoredForecast("a", "t", earlier), StoredForecast("b", "t", later))
    found = analysis()
    return dataclasses.replace(found, run=dataclasses.replace(found.run, forecasts=stored))


def test_the_latest_forecast_of_a_model_is_shown():
    head, verdict, bands, *_ = forecast_sections(with_forecasts())

    assert (head.title, head.detail) == ("Scaling forecast", "resnet50")
    assert verdict.verdict.startswith("70 % (90 % band 51 to 88) scaling efficiency on 64 ranks")
    (measure,) = verdict.actions
    assert measure.sentence.startswith("about 1 min on np=2")
    assert measure.command == "hvdprof net --hosts HOST1,HOST2"
    assert [row[0] for row in bands.rows] == ["8", "64"]


@pytest.mark.heavy
def test_html_and_markdown_have_a_section_where_a_forecast_is_stored():
    found = with_forecasts()
    stream = io.StringIO()
    MarkdownReporter().render(found, stream)

    page, text = html_page(found), stream.getvalue()

    assert "<h2>Scaling forecast" in page
    assert "figure-forecast" in page
    assert "<p>The batch per rank stays 32.</p>" in page
    assert "\n    hvdprof net --hosts HOST1,HOST2\n" in text
    assert "Knee at 16 ranks: the next doubling costs" in text
    assert "- The batch per rank stays 32." in text
    assert "### Scaling forecast: resnet50" in text
    assert "| 64 | the measured network | 70 % (90 % band 51 to 88) |" in text


@pytest.mark.heavy
def test_reports_without_a_forecast_have_no_such_section():
    stream = io.StringIO()
    MarkdownReporter().render(analysis(), stream)

    assert forecast_sections(analysis()) == ()
    assert "Scaling forecast" not in stream.getvalue()
    assert "figure-forecast" not in html_page(analysis())


NETWORKS = ("1Gbit", "25Gbit", "100Gbit")


def test_every_row_is_in_one_group_of_its_size():
    forecast = finished_forecast(NETWORKS, losses=(0.12, 0.05, 0.05))
    shuffled = dataclasses.replace(forecast, rows=forecast.rows.sample(frac=1, random_state=1))

    groups = [(names, rows[0]["np"], len(rows)) for names, rows in network_rows(shuffled)]

    assert groups == [
        (names, size, number)
        for size in (8, 16, 32, 64)
        for names, number in (("1Gbit", 1), ("25Gbit, 100Gbit", 2))
    ]


def test_another_cause_has_a_row_of_its_own():
    same = finished_forecast(NETWORKS, losses=(0.05, 0.05, 0.05), sizes=(8,))
    rows = same.rows.assign(dominating=["exposed-transfer", JITTER, JITTER])

    groups = [names for names, _ in network_rows(dataclasses.replace(same, rows=rows))]

    assert groups == ["1Gbit", "25Gbit, 100Gbit"]


def test_joined_rows_show_the_range_of_all():
    forecast = finished_forecast(NETWORKS, losses=(0.055, 0.05, 0.05), sizes=(8,))
    ((_, rows),) = network_rows(forecast)

    assert span(rows, "efficiency_p50", "efficiency_p50") == "84 to 85"
    assert span(rows, "efficiency_p5", "efficiency_p95") == "74 to 94"
    assert span(rows, "samples_per_s_p50", "samples_per_s_p50", units.rate) == "668 to 680"
    assert span(rows[1:], "samples_per_s_p50", "samples_per_s_p50", units.rate) == "680"


@pytest.mark.parametrize("losses", [(0.05, 0.05, 0.05), (0.052, 0.05, 0.05)])
def test_an_open_band_stays_open(losses):
    forecast = finished_forecast(NETWORKS, losses=losses, sizes=(8,), is_open=True)
    ((_, rows),) = network_rows(forecast)

    assert math.isnan(rows[0]["efficiency_p5"])
    assert span(rows, "efficiency_p5", "efficiency_p95") == "94 or less"
