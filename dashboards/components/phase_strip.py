"""Ranks by phase: a row for each rank, a column for each phase, tinted by the deviation.

Tested in ``tests/dashboards/test_stalls.py``.
"""

import dash_mantine_components as dmc
from dash import html

from hvdprof import units
from hvdprof.dashboards.components.section import section
from hvdprof.report.screen.rank_phases import PHASES, Deviation, RankPhases

_ABOUT = "Time of each phase minus the median of the other ranks; mean of the steady steps."


def phase_strip(strip: RankPhases) -> dmc.Paper:
    """The card; its sentence names the rank and phase that stand out."""
    names = [html.Th(name, scope="col") for name in PHASES.values()]
    rows = [
        html.Tr([html.Th(str(rank), scope="row"), *map(_deviation, row)])
        for rank, row in zip(strip.ranks, strip.rows, strict=True)
    ]
    about = _ABOUT
    if strip.num_ranks > len(strip.ranks):
        shown = units.count(len(strip.ranks))
        about += f" The {shown} of {units.count(strip.num_ranks)} ranks that deviate most."
    head = html.Thead(html.Tr([html.Th("rank", scope="col"), *names]))
    return section(
        "Ranks by phase",
        dmc.Text(strip.sentence, size="sm", fw=600),
        html.Div(
            html.Table([head, html.Tbody(rows)], className="strip"),
            className="sideways",
            tabIndex="0",
        ),
        hint=about,
    )


def _deviation(one: Deviation) -> html.Td:
    side = "slower" if one.tint > 0 else "faster"
    strength = f"{100 * min(abs(one.tint), 1.0) * 0.75:.0f}%"
    return html.Td(
        one.text,
        className=side if one.tint else "",
        style={"--strength": strength} if one.tint else {},
    )
