"""The runs of one model or script in order of time: a metric with its interval, and its changes."""

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import Dash
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.api import History
from hvdprof.dashboards.components.diagnosis_cards import headline_bar
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.dashboards.components.run_outcome import (
    LATEST_RUNS,
    latest_of_model,
    runs_in,
    series_of_runs,
)
from hvdprof.dashboards.components.section import figure_card
from hvdprof.dashboards.components.text_table import TextRows, text_card
from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.pages import never_empty
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.errors import HvdprofError
from hvdprof.figures.time_differences import history_figure
from hvdprof.model.cell_key import cell_label
from hvdprof.model.results.comparison import EFFICIENCY, METRICS, change_at
from hvdprof.model.run import RunAnalysis

PATH = "/history"
TITLE = "History"
KEYS: tuple[str, ...] = ("history", "model", "metric")
lack = never_empty

_TITLES = {metric.name: metric.title for metric in METRICS}
_NARROWEST = 620


def layout(runs: RunStore, view: View) -> dmc.Stack | dmc.Paper:
    """The page of the runs in the address, otherwise of the latest runs of the same model."""
    asked = view.text("history")
    shown = _model_of(runs, view)
    chosen = latest_of_model(runs, shown) if asked is None else runs_in(asked, runs.ids)
    series, problems = series_of_runs(runs, chosen)
    if not series:
        return _nothing(len(chosen), problems)
    models = list(dict.fromkeys(model for model, _ in series))
    model = shown if shown in models else models[0]
    names = [name for one, name in series if one == model]
    asked_metric = view.text("metric")
    metric = asked_metric if asked_metric in names else names[0]
    if asked_metric not in names and EFFICIENCY.name in names:
        metric = EFFICIENCY.name
    found = series[model, metric]
    return dmc.Stack(
        [
            headline_bar(found.sentence),
            _controls(models, model, names, metric),
            figure_card(
                "history",
                f"{found.metric.title.capitalize()} of {model}",
                history_figure(found),
                about="One line per cell, with 95 % CI, in order of time. A larger marker is a run "
                "from which on the metric changed.",
            ),
            _values(found, runs.ids),
            *_notes([*problems, *found.notes], is_latest=asked is None),
        ],
        gap="md",
    )


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _model_of(runs: RunStore, view: View) -> str | None:
    """The model of the address, otherwise that of the verdict of the shown run."""
    if asked := view.text("model"):
        return asked
    try:
        looked = runs.finished(str(view.run))
    except HvdprofError:
        # Another run can have a history; the other pages say what is wrong with this one.
        return None
    return str(looked.verdict.model) or None if isinstance(looked, RunAnalysis) else None


def _nothing(number: int, problems: Sequence[str]) -> dmc.Paper:
    held = "none is here" if number == 0 else f"{units.counted(number, 'run')} here"
    why = f"A history needs two runs of the same model and number of ranks: {held}."
    return empty_state(
        " ".join([why, *problems]),
        "hvdprof bench --preset quick",
        "hvdprof run --np 1,2 -- python train.py",
        about="This page then shows scaling efficiency, step time and other metrics of each run "
        "with their 95 % CI, and the run from which on one changed.",
    )


def _controls(models: Sequence[str], model: str, metrics: Sequence[str], metric: str) -> dmc.Group:
    options = [{"value": name, "label": _TITLES[name]} for name in metrics]
    looks = [{"description": name, "w": 260, "maw": "100%"} for name in ("Metric", "Model")]
    return dmc.Group(
        [
            view_select("metric", "Metric", options, metric, **looks[0]),
            view_select("model", "Model", models, model, **looks[1]),
        ]
    )


def _values(found: History, run_ids: Sequence[str]) -> dmc.Paper:
    title = f"{found.metric.title} (95 % CI)"
    # The latest run is what one looks for.
    latest_first = found.rows.iloc[::-1].sort_values("time", ascending=False, kind="stable")
    rows = [
        (
            _run_link(str(row["run"]), run_ids),
            str(row["time"])[:16].replace("T", " "),
            str(row["commit"])[:9] or units.MISSING,
            cell_label(row),
            units.interval_of_unit(row["value"], row["low"], row["high"], found.metric.unit),
            change_at(row, found.metric) or units.MISSING,
        )
        for row in latest_first.to_dict("records")
    ]
    saved = latest_first.assign(metric=found.metric.name, unit=found.metric.unit)
    return text_card(
        "history-values",
        "Every run",
        TextRows(("run", "started (UTC)", "commit", "cell", title, "change"), rows, saved),
        left=4,
        narrowest=_NARROWEST,
        about="The change of the mean at a run from which on the metric changed.",
    )


def _run_link(name: str, run_ids: Sequence[str]) -> Component | str:
    if name not in run_ids:
        return name
    link: Component = dmc.Anchor(name, href=View("/", {"run": name}).href, className="run-name")
    return link


def _notes(sentences: Sequence[str], *, is_latest: bool) -> list[Component]:
    notes = list(sentences)
    if is_latest:
        notes.append(
            f"The latest {LATEST_RUNS} runs of the model are read; choose others in the list of "
            "runs. In the terminal: hvdprof history runs/"
        )
    return [dmc.Text(" ".join(notes), size="sm", className="about")] if notes else []
