"""Forecasts that ``hvdprof predict`` kept in a run directory, from JSON to the declared tables."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.results.forecast import Forecast, Limits, Missing, Question, StoredForecast
from hvdprof.model.run import Run
from hvdprof.model.schema import Table
from hvdprof.model.tables.forecast_tables import (
    FORECAST,
    FORECAST_CAUSES,
    FORECAST_MEASURE,
    FORECAST_WIDTHS,
)
from hvdprof.rundir.json_codec import DAMAGE, JsonObject, decode, parse_json
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.regular_file import checked_inside, read_regular

T = typing.TypeVar("T")


def with_forecasts(run: Run) -> Run:
    """The run with its forecasts, oldest first; a damaged file becomes a note."""
    folder = RunPaths(run.folder).forecasts
    if not folder.is_dir():
        return run
    stored: list[StoredForecast] = []
    notes: list[Note] = []
    for path in sorted(folder.glob("*.json")):
        try:
            stored.append(read_forecast(checked_inside(run.folder, path)))
        except (OSError, *DAMAGE) as error:
            text = f"The forecast {path.name} cannot be read: {error}."
            notes.append(Note(NoteCode.UNREADABLE, text))
    return dataclasses.replace(run.extended({}, notes), forecasts=tuple(stored))


def read_forecast(path: Path) -> StoredForecast:
    """The forecast that a file holds.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is damaged, or lacks a field or a column.
        KeyError: A key is missing.
    """
    content: JsonObject = parse_json(read_regular(path))
    return StoredForecast(path.stem, str(content["created_at"]), _forecast(content))


def _forecast(content: JsonObject) -> Forecast:
    return Forecast(
        question=decode(Question, content["question"], "question"),
        baseline=str(content["baseline"]),
        baseline_samples_per_s=_number(content["baseline_samples_per_s"]),
        measured_np=tuple(int(size) for size in content["measured_np"]),
        excluded_np=tuple(int(size) for size in content["excluded_np"]),
        algorithm=str(content["algorithm"]),
        algorithm_probability=_number(content["algorithm_probability"]),
        scenarios=tuple(str(scenario) for scenario in content["scenarios"]),
        rows=_table(FORECAST, content),
        causes=_table(FORECAST_CAUSES, content),
        widths=_table(FORECAST_WIDTHS, content),
        measurements=_table(FORECAST_MEASURE, content),
        limits=tuple(_record(Limits, limit) for limit in content["limits"]),
        assumptions=tuple(str(assumption) for assumption in content["assumptions"]),
        missing=tuple(_record(Missing, gap) for gap in content["missing"]),
        caveats=tuple(
            Note(**(note | {"code": NoteCode(note["code"])})) for note in content.get("caveats", ())
        ),
        tail_index=_number(content["tail_index"]),
    )


def _table(table: Table, content: JsonObject) -> pd.DataFrame:
    """The rows with the declared columns; columns of a newer version are left out."""
    rows = pd.DataFrame(content[table.name])
    return table.empty() if rows.empty else table.frame(rows[table.column_names])


def _record(kind: type[T], values: Mapping[str, object]) -> T:
    """A record whose missing numbers were written as null."""
    hints = typing.get_type_hints(kind)
    known = {
        name: math.nan if value is None and hints.get(name) is float else value
        for name, value in values.items()
    }
    return decode(kind, known, kind.__name__)


def _number(value: object) -> float:
    return float(str(value)) if value is not None else math.nan
