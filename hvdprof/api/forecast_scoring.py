"""Earlier forecasts held against later measurements, in the run directories."""

import dataclasses
import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from hvdprof.analyze.predict.forecast_score import (
    Predicted,
    forecast_errors,
    forecast_scores,
    measured_of,
    past_errors,
)
from hvdprof.api.run_entries import list_runs
from hvdprof.api.runs import analyze_run
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.load import is_run_directory, missing
from hvdprof.model.results.forecast import StoredForecast
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.forecast_tables import FORECAST_SCORES
from hvdprof.plain_text import printable
from hvdprof.rundir.json_codec import DAMAGE, parse_json
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.regular_file import read_regular
from hvdprof.rundir.written_file import file_mode, write_whole

__all__ = ["ForecastScores", "score_forecasts"]


@dataclasses.dataclass(frozen=True, slots=True)
class ForecastScores:
    """Forecasts held against later measurements.

    Attributes:
        scores: FORECAST_SCORES.
        errors: FORECAST_ERRORS of these and of all earlier scores in the same folder.
        num_forecasts: Forecasts that were looked at.
        notes: Runs and earlier scores that could not be read.
    """

    scores: pd.DataFrame
    errors: pd.DataFrame
    num_forecasts: int
    notes: tuple[str, ...] = ()


def score_forecasts(runs: Sequence[Path]) -> ForecastScores:
    """Every forecast that the runs hold, held against the runs that measured its sizes.

    Measurements are looked for in the runs and in the folders that they are in. The scores are
    written into the run directory of each forecast; later forecasts in the same folder use them.

    Raises:
        UnreadableInputError: A path is no run directory, or none holds a forecast.
        StorageError: The scores cannot be written.
    """
    folders = list(dict.fromkeys(path.resolve() for path in runs))
    analyses = {folder: run_analysis(folder) for folder in folders}
    holding = {path: found for path, found in analyses.items() if found.run.forecasts}
    if not holding:
        raise UnreadableInputError(
            "No forecast to score: none of the runs holds one.",
            hint="Predict first, then measure a predicted size: hvdprof predict RUN --np 8,16",
        )
    stored = [forecast for found in holding.values() for forecast in found.run.forecasts]
    notes = _add_siblings(analyses, stored)
    measured = [measured_of(analysis) for analysis in analyses.values()]
    scores = []
    for folder, found in holding.items():
        own = forecast_scores([Predicted(found.run.shown_name, found.run.forecasts)], measured)
        _write_scores(folder, own)
        scores.append(own)
    history, problems = _read_all_scores({path.parent for path in holding})
    return ForecastScores(
        scores=FORECAST_SCORES.frame(pd.concat(scores)),
        errors=forecast_errors(history),
        num_forecasts=len(stored),
        notes=(*notes, *problems),
    )


def run_analysis(path: Path) -> RunAnalysis:
    """The analysis of a run directory.

    Raises:
        UnreadableInputError: The path is none.
    """
    if not is_run_directory(path):
        if not path.exists():
            raise missing(path)
        raise UnreadableInputError(
            f"{path} is not a run directory: it holds no manifest.json.",
            hint="A table of ranks and speeds: hvdprof predict --table FILE.csv --np 64",
        )
    return analyze_run(path)


def _write_scores(folder: Path, scores: pd.DataFrame) -> None:
    rows = scores.to_dict("records")
    path = RunPaths(folder).forecast_scores
    write_whole(path, json.dumps(rows, indent=1) + "\n", mode=file_mode(path))


def _read_all_scores(parents: Iterable[Path]) -> tuple[pd.DataFrame, list[str]]:
    """The scores of all runs in some folders, and a sentence on each file that is damaged."""
    frames, problems = [FORECAST_SCORES.empty()], []
    for folder in [
        file.parent
        for parent in sorted(parents)
        for file in sorted(parent.glob(f"*/{RunPaths(Path()).forecast_scores.name}"))
    ]:
        try:
            rows = parse_json(read_regular(RunPaths(folder).forecast_scores))
            frames.append(FORECAST_SCORES.frame(rows))
        except (OSError, *DAMAGE) as error:
            problems.append(
                f"The scores of earlier forecasts in {folder.name} are not used: {error}. "
                f"hvdprof predict --score {shlex.quote(str(folder))} writes them again."
            )
    return FORECAST_SCORES.frame(pd.concat(frames)), problems


def earlier_errors(parent: Path) -> tuple[tuple[tuple[float, float], ...], list[str]]:
    """What earlier forecasts of the runs in a folder were off by.

    Returns:
        Extrapolation and log error of each counted score; a sentence on each damaged file.
    """
    scores, problems = _read_all_scores([parent])
    return past_errors(scores), problems


def _add_siblings(analyses: dict[Path, RunAnalysis], stored: Sequence[StoredForecast]) -> list[str]:
    """Add the analyses of runs beside the given ones that measured a predicted cell."""
    wanted = {
        (str(model), int(size))
        for predicted in stored
        for model, size in zip(
            predicted.forecast.rows["model"], predicted.forecast.rows["np"], strict=True
        )
    }
    notes = []
    for parent in sorted({folder.parent for folder in analyses}):
        for entry in list_runs(parent, levels=1):
            folder = entry.folder.resolve()
            if folder in analyses:
                continue
            if entry.problem:
                notes.append(f"{printable(entry.folder.name)} was not read: {entry.problem}")
            elif wanted & _measured_cells(Manifest.read(folder)):
                analyses[folder] = run_analysis(folder)
    return notes


def _measured_cells(manifest: Manifest) -> set[tuple[str, int]]:
    return {
        (segment.segment.model, record.size)
        for record in manifest.passes
        for segment in record.segments
    }
