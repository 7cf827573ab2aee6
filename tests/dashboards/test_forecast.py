from pathlib import Path

import pytest

from hvdprof.dashboards.pages import forecast
from hvdprof.dashboards.run_store import RunStore
from hvdprof.report.sections.forecast_page import write_forecast
from hvdprof.rundir.layout import RunPaths
from tests.builders.browser import IS_DARK, serious_violations, show, watched_page
from tests.builders.finished_forecast import finished_forecast
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.served_dashboard import (
    empty_run,
    measured_run,
    page_text,
    served,
    standalone_timeline,
)

pytestmark = pytest.mark.slow

NOTHING = "No forecast is stored beside this run."


def with_forecasts(folder: Path) -> Path:
    """A measured run with a forecast of its network, and a later one of two networks."""
    made = {
        "20261122-180000": finished_forecast(),
        "20261122-190000": finished_forecast(("1Gbit", "25Gbit"), losses=(0.12, 0.05)),
    }
    run = measured_run(folder)
    RunPaths(run).forecasts.mkdir()
    for name, one in made.items():
        created = f"2026-11-22T{name[9:11]}:00:00+00:00"
        with (RunPaths(run).forecasts / f"{name}.json").open("w", encoding="utf-8") as file:
            write_forecast(one, file, created_at=created, version="0.0.0")
    return run


def test_the_latest_forecast_is_shown_and_another_is_chosen_in_the_address(tmp_path):
    run = with_forecasts(tmp_path / "run")

    latest = page_text(forecast, run)
    first = page_text(forecast, run, forecast="20261122-180000")

    assert "Exposed transfer (bandwidth) limits it." in latest
    assert "resnet50 over 1Gbit and 25Gbit, against torch np=1" in latest
    assert "70 % (90 % band 51 to 88) scaling efficiency on 64 ranks." in first
    assert "80 % is reached up to 16 ranks" in first
    for text in ("hvdprof net --hosts HOST1,HOST2", "Assumptions", "Not in the run"):
        assert text in first


def test_a_network_is_chosen_in_the_address_and_an_unknown_one_is_the_first(tmp_path):
    run = with_forecasts(tmp_path / "run")

    assert "by cause over 25Gbit" in page_text(forecast, run, network="25Gbit")
    assert "by cause over 1Gbit" in page_text(forecast, run, network="<b>")


def test_of_several_models_the_command_names_one(tmp_path):
    segments = [SegmentSpec(model=model) for model in ("mnist", "resnet18")]
    run = write_run(tmp_path / "run", [PassSpec(size=size, segments=segments) for size in (1, 2)])
    model = RunStore([run]).analysis("run").verdict.model
    assert model
    assert f"hvdprof predict {run} --model {model} --np" in page_text(forecast, run)


def test_without_a_forecast_the_page_names_the_command(tmp_path):
    without = page_text(forecast, empty_run(tmp_path / "empty"))
    assert NOTHING in without
    assert f"hvdprof predict {tmp_path / 'empty'} --np" in without
    assert NOTHING in page_text(forecast, standalone_timeline(tmp_path))


@pytest.mark.browser
def test_the_page_is_clean_in_a_browser(tmp_path):
    run = with_forecasts(tmp_path / "run")
    with served(RunStore([run])) as address, watched_page(address) as watched:
        page = watched.page
        for width, dark in ((1280, False), (390, True)):
            watched.resize(width, dark=dark)
            show(watched, f"{address}{forecast.PATH}?run=run&forecast=20261122-180000")
            page.wait_for_selector(".forecast-curve .scatterlayer .trace", state="attached")
            page.wait_for_selector(".forecast-causes .barlayer path", state="attached")
            page.get_by_text("What to measure next").first.wait_for()
            page.wait_for_load_state("networkidle")
            assert page.evaluate(IS_DARK) == dark
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert watched.complaints == []
            assert serious_violations(page) == []
            assert watched.foreign_requests == []
