"""The first page: headline, progress, tiles, verdict, strip of the run, lines of code.

Tested in ``tests/dashboards/test_diagnosis.py`` and ``test_line_card.py``.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.section import (
    HIDDEN,
    attributes,
    copied_text,
    fact,
    section,
    steps_source,
)
from hvdprof.dashboards.components.term_link import linked_terms, titled
from hvdprof.dashboards.view import PASS_KEY, View
from hvdprof.figures.palette import CAUSE_COLOURS, PART_COLOURS
from hvdprof.figures.typical_step import RunStrip
from hvdprof.model.causes import PART_NAMES
from hvdprof.model.run import RunAnalysis
from hvdprof.report.screen.open_points import TONE_ICONS, Band, OpenPoints
from hvdprof.report.screen.rank_bars import RankBar, RankBars, Segment
from hvdprof.report.screen.tiles import Bar, Progress, Tile
from hvdprof.report.sections.code_lines import cause_rows, lines_behind_causes, source_line

_TIMELINE = "/timeline"
_SMALLEST_LABEL = 0.08
"""A named part below this share of the width has its excess beside the bar."""

_BARS_ABOUT = (
    "Means of the steady steps of all launches. The outlined part is what the verdict names, with "
    "its excess over the other ranks. A click opens the rank in the timeline."
)


_UNIT = re.compile(r"(?<=\d) (?=%|[mµn]?s\b)")
"""Between a number and its unit, where no line may end."""


def verdict_band(band: Band, links: Sequence[Component], choices: Component | None) -> html.Div:
    """The verdict, its cost, how far to trust it, and what to do next."""
    icon = html.Span(f"{TONE_ICONS[band.tone]} ", className=f"text-{band.tone}", **HIDDEN)
    trust: list[Component | str] = [icon, html.B(f"{band.trust}: "), band.reason]
    if band.command:
        copy = dmc.CopyButton(
            value=band.command, children="Copy the command", size="compact-xs", variant="default"
        )
        trust += [" ", copy]
    sentence, cost = (_UNIT.sub("\N{NO-BREAK SPACE}", one) for one in (band.sentence, band.cost))
    said = [
        dmc.Title(titled(sentence), order=1, size="20px", lh=1.3, fw=700),
        *([dmc.Text(linked_terms(cost), size="15px", lh=1.5)] if cost else []),
        html.Div(trust, className="band-trust"),
    ]
    beside = [*([choices] if choices is not None else []), dmc.Group(list(links), gap=8)]
    return html.Div(
        [html.Div(said, className="grow"), html.Div(beside, className="band-links")],
        className=f"verdict band band-{band.edge}",
    )


def rank_bars_card(
    bars: RankBars, sentence: str, source: Sequence[Component | str], view: View
) -> dmc.Paper:
    """A row for each rank, stacked by part.

    Args:
        bars: The bars.
        sentence: What stands out.
        source: Where the numbers come from.
        view: The view of the page: a click keeps its run and cell.
    """
    parts = [part for part in PART_NAMES if any(part == one.part for one in _all(bars))]
    legend = [html.Span([_swatch(part), PART_NAMES[part]], className="legend") for part in parts]
    more = bars.num_ranks - sum(bar.rank is not None for bar in bars.bars)
    left = [f" {units.counted(more, 'rank')} between them not shown."] if more else []
    return section(
        "Mean step of each rank",
        dmc.Text([sentence, *left], size="sm"),
        html.Div([_row(bar, view) for bar in bars.bars], className="rank-bars"),
        html.Div(legend, className="legends"),
        _foot(*source),
        hint=_BARS_ABOUT,
    )


def strip_card(strip: RunStrip, view: View) -> dmc.Paper:
    """One column per step of a launch, each leading to the step in the timeline."""
    pass_id, segment = strip.steps.launch
    where = {PASS_KEY: pass_id, "segment": segment}
    target = view.at(_TIMELINE)
    columns = []
    for one in strip.columns:
        data = attributes(data_href=target.changed(**where, step=one.step).href)
        style = {"height": f"{100 * one.height:.0f}%"}
        if one.acts:
            style["background"] = CAUSE_COLOURS[strip.term]
        name = "strip-step" if one.steady else "strip-step strip-left-out"
        room = {"flexGrow": one.size}
        column = html.Div(html.Div(style=style), title=one.text, className=name, style=room, **data)
        columns.append(column)
    label = attributes(aria_label=f"Steps of the run. {strip.sentence}")
    return section(
        "Steps of the run",
        html.Div(columns, className="run-strip", role="img", **label),
        _foot(f"{strip.sentence}. " * bool(strip.sentence), steps_source(strip.steps)),
        hint="One column per step, as high as its time. Coloured where the cause of the verdict "
        "acts, if single steps show that; pale where a step is excluded, as in warm-up: hover for "
        "the reason. A click "
        "opens the step in the timeline.",
    )


def _all(bars: RankBars) -> list[Segment]:
    return [segment for bar in bars.bars for segment in bar.segments]


def _foot(*source: Component | str) -> html.Div:
    return html.Div([*source], className="card-foot")


def _swatch(part: str) -> html.Span:
    return html.Span(className=f"swatch part-{part}", style={"background": PART_COLOURS[part]})


def _row(bar: RankBar, view: View) -> Component:
    segments = []
    for one in bar.segments:
        style = {"width": f"{100 * one.share:.2f}%", "background": PART_COLOURS[one.part]}
        name = f"rank-part part-{one.part}" + (" rank-named" if one.excess else "")
        inside = [html.Span(one.excess)] if one.excess and one.share >= _SMALLEST_LABEL else []
        segments.append(html.Div(inside, title=one.text, style=style, className=name))
    beside = [one.excess for one in bar.segments if one.excess and one.share < _SMALLEST_LABEL]
    cells = [
        html.Span(bar.label, className="rank-label"),
        html.Div(segments, className="rank-bar"),
        html.Span([*[html.B(f"{text} ") for text in beside], bar.step], className="rank-step"),
    ]
    if bar.rank is None:
        return html.Div(cells, className="rank-row")
    target = view.at(_TIMELINE).changed(ranks=bar.rank)
    link: Component = dmc.Anchor(cells, href=target.href, underline="never", className="rank-row")
    return link


_LINES_ABOUT = (
    "Lines that explain the causes. Their source is shown where the file lies as it lay when the "
    "run began."
)


def line_card(analysis: RunAnalysis) -> dmc.Paper | None:
    """What explains the causes of the verdict's cell, with the source; None without a line."""
    causes = lines_behind_causes(analysis).to_dict("records")
    begun = analysis.run.manifest.created_at
    parts: list[Component] = []
    for cause, texts in zip(causes, cause_rows(analysis), strict=True):
        name, place, time, what, *_ = texts
        parts.append(dmc.Text(f"{name}: {place}, {time}, against: {what}", size="sm"))
        place_of_source = str(cause["file"]), int(cause["line"])
        # Files of other recorders do not say when their run began.
        if begun and (source := source_line(*place_of_source, datetime.fromisoformat(begun))):
            parts.append(dmc.Code(source, block=True, className="keep-lines"))
    return section("Lines of code", *parts, about=_LINES_ABOUT) if parts else None


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
