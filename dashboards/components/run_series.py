"""Runs in order of time: which ones, and the series of their metrics.

Tested in ``tests/dashboards/test_history.py``.
"""

from collections.abc import Mapping, Sequence

from hvdprof.api import History, histories_of_analyses
from hvdprof.dashboards.run_store import RunStore
from hvdprof.errors import HvdprofError

MOST_RUNS = 50
"""Runs that can be chosen; reading more would keep the page waiting."""

LATEST_RUNS = 12
"""Runs of a model that are read where none is chosen."""

LONGEST = 400
"""Characters of a value in the address."""

Series = Mapping[tuple[str, str], History]
"""Histories by model and name of the metric."""

_BETWEEN = "|"


def text_of_runs(names: Sequence[str]) -> str | None:
    """The runs as a value of the address; None where they are too many for one."""
    text = _BETWEEN.join(names)
    return None if len(text) > LONGEST or len(names) > MOST_RUNS else text


def runs_in(text: str, known: Sequence[str]) -> list[str]:
    """The runs that a value of the address names.

    Args:
        text: Made by ``text_of_runs``.
        known: Ids of all runs.
    """
    asked = dict.fromkeys(text.split(_BETWEEN))
    return [run_id for run_id in asked if run_id in known][:MOST_RUNS]


def latest_of_model(runs: RunStore, model: str | None) -> list[str]:
    """The latest run directories that hold a model, newest first.

    Args:
        runs: The runs of the dashboard.
        model: Name of the model or script; None for any.
    """
    found = []
    for run_id in runs.ids:
        entry = runs.entry(run_id)
        if entry is None or entry.problem:
            continue
        if model is None or model in entry.models:
            found.append(run_id)
    return found[:LATEST_RUNS]


def series_of_runs(runs: RunStore, chosen: Sequence[str]) -> tuple[Series, list[str]]:
    """Every series of these runs, and a sentence for each run that cannot be read.

    The result is cached with the first run that can be read, until one of them changes.
    """
    state = tuple((run_id, _changed_ns(runs, run_id)) for run_id in chosen)
    for run_id in chosen:
        if _problem(runs, run_id) is None:
            return runs.made(run_id, ("series", state), lambda: _series(runs, chosen))
    return _series(runs, chosen)


def _series(runs: RunStore, chosen: Sequence[str]) -> tuple[Series, list[str]]:
    analyses, problems = [], []
    for run_id in chosen:
        if problem := _problem(runs, run_id):
            problems.append(f"{run_id} is left out: {problem}")
        else:
            analyses.append(runs.analysis(run_id))
    return histories_of_analyses(analyses), problems


def _problem(runs: RunStore, run_id: str) -> str | None:
    """Why a run is no point of a series; None where it is one."""
    try:
        runs.analysis(run_id)
    except HvdprofError as error:
        return error.message
    return None


def _changed_ns(runs: RunStore, run_id: str) -> int | None:
    """Last change of a run; None of one that is gone, which ``_problem`` reports."""
    try:
        return runs.changed_ns(run_id)
    except HvdprofError:
        return None
