"""A forecast as sections, JSON and CSV: verdict, bands per network, lost points, price."""

import dataclasses
import shlex
from dataclasses import replace
from typing import IO

import pandas as pd

from hvdprof import units
from hvdprof.model.causes import SHORT_NAMES
from hvdprof.model.results.forecast import Forecast
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.forecast_tables import QUANTILES
from hvdprof.report.json_values import JsonObject, json_rows, json_value, write_json
from hvdprof.report.sections.forecast_section import (
    BAND_HEADS,
    SHORT_HEADS,
    chance_head,
    efficiency_cell,
    forecast_heads,
    forecast_rows,
    network_rows,
    rate_cell,
    span,
)
from hvdprof.report.sections.forecast_texts import (
    NO_CAUSE,
    caveat_of,
    knee_sentences,
    limited_by,
    lost_points,
    missing_sentences,
    network_name,
    next_step_of,
    reach_of,
    title_of,
    verdict_of,
    width_sentence,
)
from hvdprof.report.sections.section import Action, Head, Section

_SMALLEST_SHARE = 0.0005
_WORDS = ("network", "limited by", "over")

FORECAST_SCHEMA_VERSION = 1


def forecast_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """The latest forecast of every model, in the order of the models' first forecasts."""
    latest = {forecast.forecast.model: forecast.forecast for forecast in analysis.run.forecasts}
    run = shlex.quote(str(analysis.run.folder))
    return tuple(
        section
        for forecast in latest.values()
        for section in (
            Section("Scaling forecast", forecast.model),
            *_sections(forecast, _table(forecast_heads(forecast), forecast_rows(forecast)), run),
        )
    )


def terminal_sections(
    forecast: Forecast, run: str, price: float | None = None
) -> tuple[Section, ...]:
    """The same of one forecast, its bands in 80 columns.

    Args:
        forecast: A finished forecast.
        run: The run directory in commands.
        price: Price of one rank for an hour, which adds a table; in any currency.
    """
    return _sections(forecast, _bands(forecast), run, price)


def _sections(
    forecast: Forecast, bands: Section, run: str, price: float | None = None
) -> tuple[Section, ...]:
    """The verdict, the next measurement, the bands of every network, and what they rest on."""
    text, command = next_step_of(forecast, run)
    width = width_sentence(forecast)
    lists = {
        "Assumptions": forecast.assumptions,
        "Not in the run": tuple(missing_sentences(forecast, run)),
    }
    return (
        Section(
            verdict=f"{verdict_of(forecast)} {reach_of(forecast)}".strip(),
            caveat=caveat_of(forecast),
            actions=(Action("Next", text, command),) if text else (),
        ),
        replace(
            bands,
            title=title_of(forecast),
            sentences=(*knee_sentences(forecast.limits), *([width] if width else [])),
        ),
        *([_costs(forecast, price)] if price else []),
        *_points(forecast),
        *(Section(title, sentences=lines) for title, lines in lists.items() if lines),
    )


def _table(heads: tuple[str, ...], rows: tuple[tuple[str, ...], ...], title: str = "") -> Section:
    shown = tuple(Head(head, is_text=head in _WORDS) for head in heads)
    return Section(title, heads=shown, rows=rows)


def _bands(forecast: Forecast) -> Section:
    """One table of 80 columns: of several networks the medians with one band, else both bands."""
    several = len(forecast.scenarios) > 1
    heads = ("np\n(hosts)", *(SHORT_HEADS if several else BAND_HEADS))
    rows = []
    for networks, members in network_rows(forecast):
        first, chances = members[0], span(members, "meets_target", "meets_target")
        cells = [efficiency_cell(first), rate_cell(first)]
        if several:
            medians = span(members, "efficiency_p50", "efficiency_p50")
            rates = span(members, "samples_per_s_p50", "samples_per_s_p50", units.rate)
            ends = span(members, "efficiency_p5", "efficiency_p95")
            cells = [f"{medians}\n({ends})", rates.replace(" to ", " to\n")]
        row = (
            f"{units.count(first['np'])}\n({units.count(first['num_hosts'])})",
            *cells,
            f"{chances} %",
            limited_by(first) or NO_CAUSE,
            *([networks] if several else []),
        )
        rows.append(row)
    over = ("over",) if several else ()
    names = (*heads, chance_head(forecast.question.target), "limited by", *over)
    return _table(names, tuple(rows))


def _costs(forecast: Forecast, price: float) -> Section:
    several = len(forecast.scenarios) > 1
    rows = tuple(
        (
            units.count(row["np"]),
            rate_cell(row, "samples_per_currency"),
            *([network_name(str(row["scenario"]))] if several else []),
        )
        for row in samples_per_currency(forecast.rows, price).to_dict("records")
    )
    heads = ("np", "samples per unit\nof currency\n(90 % band)", *(("over",) if several else ()))
    title = f"Samples per unit of currency, at {price:g} per rank and hour"
    return _table(heads, rows, title)


def _points(forecast: Forecast) -> tuple[Section, ...]:
    """Causes as rows: a forecast has more of them than sizes. None of several networks."""
    points = pd.DataFrame()
    if len(forecast.scenarios) == 1:
        points = lost_points(forecast, forecast.scenarios[0])
    if points.empty:
        return ()
    shown = points.loc[:, (points.abs() >= _SMALLEST_SHARE).any()]
    rows = {SHORT_NAMES[str(term)]: shown[term] for term in shown.columns}
    rows["sum"] = points.sum(axis=1)
    sizes = (Head(f"np={units.count(int(size))}") for size in points.index)
    return (
        Section(
            "Lost points of efficiency by cause, means; gains are negative",
            heads=(Head("cause", is_text=True), *sizes),
            rows=tuple(
                (name, *(f"{100 * share:.1f}" for share in shares)) for name, shares in rows.items()
            ),
        ),
    )


def forecast_object(
    forecast: Forecast, *, run: str = "RUN", price: float | None = None
) -> JsonObject:
    """The forecast as plain values; docs/howto/predict.md lists its keys.

    Args:
        forecast: A finished forecast.
        run: The run directory in commands.
        price: Price of one rank for an hour; adds ``cost``.
    """
    text, command = next_step_of(forecast, run)
    cost: JsonObject = {}
    if price is not None:
        cost["price_per_rank_hour"] = price
        cost["cost"] = json_rows(samples_per_currency(forecast.rows, price))
    return {
        "schema_version": FORECAST_SCHEMA_VERSION,
        "verdict": [verdict_of(forecast), reach_of(forecast)],
        "caveat": caveat_of(forecast),
        "next": {"sentence": text, "command": command},
        "question": json_value(dataclasses.asdict(forecast.question)),
        "baseline": forecast.baseline,
        "baseline_samples_per_s": json_value(forecast.baseline_samples_per_s),
        "measured_np": list(forecast.measured_np),
        "excluded_np": list(forecast.excluded_np),
        "algorithm": forecast.algorithm,
        "algorithm_probability": json_value(forecast.algorithm_probability),
        "tail_index": json_value(forecast.tail_index),
        "scenarios": list(forecast.scenarios),
        "forecast": json_rows(forecast.rows),
        "forecast_causes": json_rows(forecast.causes),
        "forecast_widths": json_rows(forecast.widths),
        "forecast_measure": json_rows(forecast.measurements),
        "limits": [json_value(dataclasses.asdict(limit)) for limit in forecast.limits],
        "assumptions": list(forecast.assumptions),
        "missing": [json_value(dataclasses.asdict(gap)) for gap in forecast.missing],
        "caveats": [json_value(dataclasses.asdict(note)) for note in forecast.caveats],
        **cost,
    }


def write_forecast(forecast: Forecast, stream: IO[str], *, created_at: str, version: str) -> None:
    """Write what a run directory keeps: the object with its time and hvdprof's version.

    ``ingest.rundir.forecast_file`` reads it.
    """
    origin: JsonObject = {"created_at": created_at, "hvdprof_version": version}
    write_json(origin | forecast_object(forecast), stream)


def render_forecast_csv(forecast: Forecast, stream: IO[str], *, price: float | None = None) -> None:
    """Write the rows of FORECAST with all digits; a price adds the columns of the cost."""
    rows = forecast.rows
    if price is not None:
        costs = samples_per_currency(rows, price)
        rows = rows.assign(**{name: costs[name] for name in costs.columns if name not in rows})
    rows.to_csv(stream, index=False, lineterminator="\n")


def samples_per_currency(rows: pd.DataFrame, price_per_rank_hour: float) -> pd.DataFrame:
    """Columns scenario, np and ``samples_per_currency_p5`` to ``_p95``: throughput by its price."""
    price_per_s = rows["np"] * price_per_rank_hour / 3600
    return pd.DataFrame(
        {
            "scenario": rows["scenario"],
            "np": rows["np"],
            **{
                f"samples_per_currency_{short}": rows[f"samples_per_s_{short}"] / price_per_s
                for short in QUANTILES
            },
        }
    )
