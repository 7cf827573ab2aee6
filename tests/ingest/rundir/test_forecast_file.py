import dataclasses
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import load_run
from hvdprof.model.notes import Note, NoteCode, texts
from hvdprof.model.results.forecast import Forecast
from hvdprof.report.forecast.forecast_json import write_forecast
from hvdprof.rundir.layout import RunPaths
from tests.builders.finished_forecast import finished_forecast
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

CREATED = "2026-11-22T18:00:00+00:00"


def stored(folder: Path, forecast: Forecast, name: str = "20261122-180000") -> Path:
    path = RunPaths(folder).forecasts / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        write_forecast(forecast, file, created_at=CREATED, version="0.0.0")
    return path


def run_folder(folder: Path) -> Path:
    return write_run(folder, [PassSpec(size=1, segments=[SegmentSpec(parts_ms=typical_parts(10))])])


@pytest.mark.heavy
def test_a_stored_forecast_reads_as_it_was_written(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    question = dataclasses.replace(
        finished_forecast().question, settings={"batch": "64"}, past_errors=((2.0, 0.03),)
    )
    written = dataclasses.replace(
        finished_forecast(("1Gbit", "25Gbit"), losses=(0.1, 0.05), is_open=True),
        question=question,
        caveats=(Note(NoteCode.OTHER_LOAD, "Others kept cores busy.", number=3),),
    )
    stored(folder, written)

    (found,) = load_run(folder).forecasts

    assert (found.name, found.created_at) == ("20261122-180000", CREATED)
    for one in dataclasses.fields(Forecast):
        before, after = getattr(written, one.name), getattr(found.forecast, one.name)
        if isinstance(before, pd.DataFrame):
            pd.testing.assert_frame_equal(before, after)
        else:
            assert before == after, one.name


@pytest.mark.heavy
def test_forecasts_are_in_the_order_of_their_time(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    for name in ("20261122-190000", "20261122-180000"):
        stored(folder, finished_forecast(), name)

    assert [one.name for one in load_run(folder).forecasts] == [
        "20261122-180000",
        "20261122-190000",
    ]


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"created_at": "x", "question": 3}'])
def test_a_damaged_forecast_is_a_note_and_the_others_are_read(tmp_path: Path, damage: str) -> None:
    folder = run_folder(tmp_path / "run")
    stored(folder, finished_forecast(), "20261122-180000")
    (RunPaths(folder).forecasts / "20261122-190000.json").write_text(damage)

    run = load_run(folder)

    assert len(run.forecasts) == 1
    (note,) = [note for note in texts(run.notes) if "forecast" in note]
    assert note.startswith("The forecast 20261122-190000.json cannot be read: ")


def test_a_run_without_forecasts_has_none(tmp_path: Path) -> None:
    assert load_run(run_folder(tmp_path / "run")).forecasts == ()
