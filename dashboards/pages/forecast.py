"""What the job reaches at other numbers of ranks: forecasts stored beside the run."""

import shlex

import dash_mantine_components as dmc
from dash import Dash
from dash.development.base_component import Component

from hvdprof.dashboards.components.data_table import table_card
from hvdprof.dashboards.components.empty_state import Lack, lack_card
from hvdprof.dashboards.components.section import figure_card, section
from hvdprof.dashboards.components.text_table import TextRows, text_card
from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.run_store import Finished, RunStore
from hvdprof.dashboards.view import View
from hvdprof.figures.forecast_figure import forecast_causes, forecast_curve
from hvdprof.model.results.forecast import Forecast, StoredForecast
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.forecast_tables import FORECAST, FORECAST_MEASURE
from hvdprof.report.sections.forecast_section import forecast_heads, forecast_rows
from hvdprof.report.sections.forecast_texts import (
    caveat_of,
    knee_sentences,
    missing_sentences,
    network_name,
    next_step_of,
    reach_of,
    title_of,
    verdict_of,
    width_sentence,
)

PATH = "/forecast"
TITLE = "Forecast"
KEYS: tuple[str, ...] = ("forecast", "network")

_NARROWEST = 620


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of one stored forecast of a run."""
    looked = runs.finished(str(view.run))
    stored = looked.run.forecasts if isinstance(looked, RunAnalysis) else ()
    if not isinstance(looked, RunAnalysis) or not stored:
        return lack_card(_unpredicted(looked))
    chosen = next((one for one in stored if one.name == view.text("forecast")), stored[-1])
    forecast = chosen.forecast
    network = str(view.text("network"))
    scenario = network if network in forecast.scenarios else forecast.scenarios[0]
    return dmc.Stack(
        [
            _verdict(forecast, str(view.run)),
            _controls(stored, chosen, scenario),
            figure_card(
                "forecast-curve",
                "Predicted scaling efficiency",
                forecast_curve(forecast, looked.scaling),
                about="Diamonds are measured, with their 95 % interval. Lines are medians of the "
                "forecast, the bands around them hold 50 and 90 % of the draws. The colour of a "
                "marker is that of the dominating cause. The dashed line is the target, the dotted "
                "one the knee.",
            ),
            _numbers(forecast),
            figure_card(
                "forecast-causes",
                f"Lost points of efficiency by cause over {network_name(scenario)}",
                forecast_causes(forecast, scenario),
                about="Means over draws; the bars of a size sum to 100 % minus its mean "
                "efficiency.",
            ),
            *_measurements(forecast),
            *_open_points(forecast, str(view.run)),
            table_card("All numbers of the forecast", FORECAST, forecast.rows),
        ],
        gap="md",
    )


def lack(runs: RunStore, run_id: str) -> Lack | None:
    """A run that nothing was predicted from."""
    looked = runs.finished(run_id)
    is_filled = isinstance(looked, RunAnalysis) and looked.run.forecasts
    return None if is_filled else _unpredicted(looked)


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _unpredicted(looked: Finished) -> Lack:
    return Lack(
        "No forecast is stored beside this run.",
        (f"hvdprof predict {_source(looked)} --np 16,32,64,128",),
        about="This page then shows the efficiency at more ranks with 50 and 90 % bands, what "
        "limits it, and what to measure next.",
    )


def _source(looked: Finished) -> str:
    """The run directory and its model for a command; a standalone file gives no forecast."""
    if not isinstance(looked, RunAnalysis):
        return "RUN"
    folder = shlex.quote(str(looked.run.folder))
    # A forecast is of one model; of several, that of the verdict.
    several = looked.scaling["model"].nunique() > 1
    return f"{folder} --model {shlex.quote(looked.verdict.model)}" if several else folder


def _verdict(forecast: Forecast, run: str) -> dmc.Paper:
    parts: list[Component] = [
        dmc.Title(verdict_of(forecast), order=1, size="h3", fw=600),
        dmc.Text(reach_of(forecast), fw=600),
    ]
    if caveat := caveat_of(forecast):
        parts.append(dmc.Text(f"Caveat: {caveat}", size="sm"))
    text, command = next_step_of(forecast, run)
    if text:
        parts.append(dmc.Text(f"Next: {text}", size="sm"))
    if command:
        parts.append(dmc.Code(command, block=True, className="keep-lines"))
    return dmc.Paper(dmc.Stack(parts, gap=4), p="md", radius="md", className="verdict")


def _controls(
    stored: tuple[StoredForecast, ...], chosen: StoredForecast, scenario: str
) -> dmc.Paper:
    forecasts = [
        {
            "value": entry.name,
            "label": f"{entry.created_at.replace('T', ' ')[:16]} {entry.forecast.model}"
            f"{entry.forecast.question.what_if_clause}",
        }
        for entry in reversed(stored)
    ]
    networks = [{"value": name, "label": network_name(name)} for name in chosen.forecast.scenarios]
    return section(
        "Which forecast",
        dmc.Group(
            [
                view_select("forecast", "Forecast", forecasts, chosen.name, w=300, maw="100%"),
                view_select("network", "Network", networks, scenario, w=220, maw="100%"),
            ]
        ),
    )


def _numbers(forecast: Forecast) -> dmc.Paper:
    return text_card(
        "forecast-numbers",
        title_of(forecast),
        TextRows(forecast_heads(forecast), list(forecast_rows(forecast)), forecast.rows),
        narrowest=_NARROWEST,
        about=" ".join(knee_sentences(forecast.limits)),
    )


def _measurements(forecast: Forecast) -> list[Component]:
    if forecast.measurements.empty:
        return []
    return [
        table_card(
            "What to measure next",
            FORECAST_MEASURE,
            forecast.measurements,
            columns=(
                "scenario",
                "measurement",
                "measure_np",
                "rank_hours",
                "band_before",
                "band_after",
                "command",
            ),
            about="Of each scenario, what narrows the band most per rank-hour comes first.",
        )
    ]


def _open_points(forecast: Forecast, run: str) -> list[Component]:
    groups = (
        ("Where the width of the band comes from", [width_sentence(forecast)]),
        ("Not in the run", list(missing_sentences(forecast, run))),
        ("Assumptions", list(forecast.assumptions)),
    )
    return [
        section(title, dmc.List([dmc.ListItem(sentence) for sentence in sentences], size="sm"))
        for title, sentences in groups
        if any(sentences)
    ]
