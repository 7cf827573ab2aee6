"""The first screen of a run: headline, progress, tiles and open points."""

from collections.abc import Sequence
from typing import Literal

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from hvdprof.dashboards.components.save_buttons import copied_text
from hvdprof.dashboards.components.section import HIDDEN, fact
from hvdprof.dashboards.components.term_link import linked_terms, titled
from hvdprof.report.screen.open_points import OpenPoints
from hvdprof.report.screen.progress import Progress
from hvdprof.report.screen.tiles import Bar, Tile
from hvdprof.report.screen.verdict_band import TONE_ICONS


def progress_card(progress: Progress) -> dmc.Paper:
    """The passes that ended as a sentence and as a bar."""
    bar: dict[str, str] = {"aria-label": "Passes that ended"}
    return dmc.Paper(
        dmc.Stack(
            [
                dmc.Text("Being measured. This page follows the run.", fw=600, size="sm"),
                dmc.Text(progress.text, size="sm"),
                dmc.Progress(value=100 * progress.share, **bar),
            ],
            gap=4,
        ),
        withBorder=True,
        p="xs",
        radius="md",
        className="progress",
    )


_LONGEST = 18


def headline_bar(sentence: str, *, order: Literal[1, 2] = 2) -> html.Div:
    """The verdict in one line.

    Args:
        sentence: The verdict.
        order: Rank of the heading: 1 on the first page, which has no other of that rank.
    """
    return html.Div(
        dmc.Title(titled(sentence), order=order, size="15px", fw=600), className="verdict headline"
    )


def tile_row(tiles: Sequence[Tile]) -> html.Div:
    """The tiles side by side; two per row on narrow screens."""
    return html.Div([_tile(tile) for tile in tiles], className="tiles")


def open_points_card(points: OpenPoints) -> html.Details:
    """What is known, suspected and to be measured next, in place of a finding."""
    groups = (("Known", points.known), ("Suspected", points.suspected))
    parts: list[Component] = []
    for title, sentences in groups:
        if sentences:
            text = [html.B(f"{title}: "), *linked_terms(" ".join(sentences))]
            parts.append(dmc.Text(text, size="sm"))
    parts.append(dmc.Text([html.B("Next: "), *linked_terms(points.next_step)], size="sm"))
    code = dmc.Code(points.command, block=True, className="keep-lines")
    parts.append(copied_text(points.command, code))
    heading = html.Summary(html.Span(points.title, className="finding-title"))
    return html.Details([heading, dmc.Stack(parts, gap=6, mt=6)], className="finding line")


def _tile(tile: Tile) -> html.Div:
    icon = [html.Span(f"{TONE_ICONS[tile.tone]} ", **HIDDEN)] if tile.tone else []
    parts: list[Component] = [
        html.Div(linked_terms(tile.title), className="tile-title"),
        html.Div(
            [*icon, html.Span(tile.value, **fact(tile.fact))],
            className=f"tile-value{_length(tile.value)}",
        ),
    ]
    if tile.bar is not None:
        parts.append(_bar(tile.bar))
    if tile.detail:
        parts.append(html.Div(tile.detail, className="tile-detail", title=tile.detail))
    return html.Div(parts, className=f"tile tone-{tile.tone}" if tile.tone else "tile")


def _length(value: str) -> str:
    """A class for values that would take two lines in full size."""
    return " long" if len(value) > _LONGEST else ""


def _bar(bar: Bar) -> html.Div:
    """The value and, darker, its interval on a scale from 0 to 100 %."""
    low, high = (min(max(end, 0.0), 1.0) for end in (bar.low, bar.high))
    parts = [html.Div(className="bar-value", style={"width": _percent(bar.value)})]
    if low == low and high == high:
        ends = {"left": _percent(low), "width": _percent(high - low)}
        parts.append(html.Div(className="bar-interval", style=ends))
    return html.Div(parts, className="bar", **HIDDEN)


def _percent(ratio: float) -> str:
    return f"{100 * min(max(ratio, 0.0), 1.0):.1f}%"
