"""A forecast as sections: verdict, bands per network, lost points by cause, open questions."""

import shlex
from dataclasses import replace

import pandas as pd

from hvdprof import units
from hvdprof.model.causes import SHORT_NAMES
from hvdprof.model.results.forecast import Forecast
from hvdprof.model.run import RunAnalysis
from hvdprof.report.forecast.forecast_json import samples_per_currency
from hvdprof.report.forecast.forecast_section import (
    BAND_HEADS,
    FORECAST_HEADS,
    SHORT_HEADS,
    chance_head,
    efficiency_cell,
    forecast_rows,
    network_rows,
    rate_cell,
    span,
)
from hvdprof.report.forecast.forecast_texts import (
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


def forecast_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """The latest forecast of every model, in the order of the models' first forecasts."""
    latest = {forecast.forecast.model: forecast.forecast for forecast in analysis.run.forecasts}
    run = shlex.quote(str(analysis.run.folder))
    return tuple(
        section
        for forecast in latest.values()
        for section in (
            Section("Scaling forecast", forecast.model),
            *_sections(forecast, _table(FORECAST_HEADS, forecast_rows(forecast)), run),
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
