import dataclasses
import io

import pytest

from hvdprof.model.forecast import StoredForecast
from hvdprof.model.run import RunAnalysis
from hvdprof.report.document.html_report import html_page
from hvdprof.report.document.markdown_report import MarkdownReporter
from hvdprof.report.forecast.forecast_section import shape_forecasts
from tests.builders.finished_analysis import analysis
from tests.builders.finished_forecast import finished_forecast


def with_forecasts() -> RunAnalysis:
    """Two forecasts of one model, of which the second is the latest."""
    earlier, later = finished_forecast(sizes=(8,)), finished_forecast(sizes=(8, 64))
    stored = (StoredForecast("a", "t", earlier), StoredForecast("b", "t", later))
    found = analysis()
    return dataclasses.replace(found, run=dataclasses.replace(found.run, forecasts=stored))


def test_the_latest_forecast_of_a_model_is_shown():
    (part,) = shape_forecasts(with_forecasts())

    assert part.model == "resnet50"
    assert part.sentences[0].startswith("70 % (90 % band 51 to 88) scaling efficiency on 64 ranks")
    assert part.sentences[-1].startswith("Next: about 1 min on np=2")
    assert part.command == "hvdprof net --hosts HOST1,HOST2"
    assert [row[0] for row in part.rows] == ["8", "64"]


@pytest.mark.heavy
def test_html_and_markdown_have_a_section_where_a_forecast_is_stored():
    found = with_forecasts()
    stream = io.StringIO()
    MarkdownReporter().render(found, stream)

    page, text = html_page(found), stream.getvalue()

    assert "<h2>Scaling forecast" in page
    assert "figure-forecast" in page
    assert "<li>The batch per rank stays 32.</li>" in page
    assert "  `hvdprof net --hosts HOST1,HOST2`" in text
    assert "Knee at 16 ranks: the next doubling costs" in text
    assert "- The batch per rank stays 32." in text
    assert "### Scaling forecast of resnet50" in text
    assert "| 64 | the measured network | 70 % (90 % band 51 to 88) |" in text


@pytest.mark.heavy
def test_reports_without_a_forecast_have_no_such_section():
    stream = io.StringIO()
    MarkdownReporter().render(analysis(), stream)

    assert shape_forecasts(analysis()) == ()
    assert "Scaling forecast" not in stream.getvalue()
    assert "figure-forecast" not in html_page(analysis())
