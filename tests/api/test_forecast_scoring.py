import dataclasses
import json
from pathlib import Path

import pytest

from hvdprof import api
from hvdprof.api.forecast_scoring import earlier_errors
from hvdprof.errors import UnreadableInputError
from hvdprof.report.sections.forecast_page import write_forecast
from hvdprof.rundir.layout import RunPaths
from tests.builders.finished_forecast import finished_forecast
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

MODEL = "resnet50"


def measured(folder: Path, *sizes: int) -> Path:
    """Steps of about 100 ms of 32 samples: 320 samples/s per rank."""
    parts = SegmentSpec(model=MODEL, parts_ms=typical_parts(100), batch_size=32)
    return write_run(folder, [PassSpec(size=size, segments=[parts]) for size in sizes])


def predicted(folder: Path) -> Path:
    """A run of 1 and 2 ranks whose forecast of 4 ranks is 360 samples/s."""
    run = measured(folder, 1, 2)
    made = finished_forecast(sizes=(4,))
    forecast = dataclasses.replace(
        made, measured_np=(1, 2), rows=made.rows.assign(extrapolation=2.0)
    )
    RunPaths(run).forecasts.mkdir()
    with (RunPaths(run).forecasts / "20261122-180000.json").open("w", encoding="utf-8") as file:
        write_forecast(forecast, file, created_at="2026-11-22T18:00:00+00:00", version="0")
    return run


@pytest.mark.heavy
def test_a_later_run_beside_it_scores_a_forecast(tmp_path):
    run = predicted(tmp_path / "small")
    measured(tmp_path / "large", 4)
    measured(tmp_path / "other", 8)

    found = api.score_forecasts([run])

    (row,) = found.scores.to_dict("records")
    assert (row["np"], row["predicted_by"], row["measured_by"]) == (4, "small", "large")
    assert row["predicted_samples_per_s"] == pytest.approx(360)
    assert row["measured_samples_per_s"] == pytest.approx(4 * 320, rel=0.1)
    assert not row["in_90"]
    assert found.errors["num_scores"].tolist() == [1]
    stored = json.loads(RunPaths(run).forecast_scores.read_text())
    assert stored[0]["measured_by"] == "large"


@pytest.mark.heavy
def test_scores_are_used_by_later_forecasts_of_the_same_folder(tmp_path):
    run = predicted(tmp_path / "small")
    measured(tmp_path / "large", 4)
    assert earlier_errors(tmp_path) == ((), [])

    found = api.score_forecasts([run])

    ((ratio, error),), problems = earlier_errors(tmp_path)
    assert not problems
    assert ratio == found.scores["extrapolation"].iloc[0]
    assert error == pytest.approx(found.scores["log_error"].iloc[0])


@pytest.mark.heavy
def test_damaged_scores_are_written_again(tmp_path):
    run = predicted(tmp_path / "small")
    measured(tmp_path / "large", 4)
    RunPaths(run).forecast_scores.write_text("{")
    errors, (problem,) = earlier_errors(tmp_path)
    assert errors == ()
    assert problem.startswith("The scores of earlier forecasts in small are not used: ")
    assert f"hvdprof predict --score {run} writes them again" in problem

    api.score_forecasts([run])

    assert len(earlier_errors(tmp_path)[0]) == 1


@pytest.mark.heavy
def test_a_size_that_nobody_measured_has_no_score(tmp_path):
    found = api.score_forecasts([predicted(tmp_path / "small")])

    assert found.scores.empty
    assert found.num_forecasts == 1


@pytest.mark.heavy
def test_a_run_without_a_forecast_is_refused(tmp_path):
    with pytest.raises(UnreadableInputError, match="No forecast to score"):
        api.score_forecasts([measured(tmp_path / "small", 1)])


@pytest.mark.heavy
def test_a_run_beside_it_that_cannot_be_read_is_a_note(tmp_path):
    run = predicted(tmp_path / "small")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "manifest.json").write_text("{")

    (note,) = api.score_forecasts([run]).notes

    assert note.startswith("broken was not read: ")
