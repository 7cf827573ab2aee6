"""Titled parts of a page: facts, figures, and buttons that copy or save.

Tested in ``tests/dashboards/test_browsing.py``.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, cast

import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.term_link import linked_terms, terms_in, titled
from hvdprof.figures.launch import LaunchSteps, num_steady
from hvdprof.figures.palette import BUTTONS_REMOVED, PLOT_CONFIG

# A card has its own button for PNG.
_REMOVED = [*BUTTONS_REMOVED, "toImage"]
_CONFIG = cast(dcc.Graph.Config, PLOT_CONFIG | {"modeBarButtonsToRemove": _REMOVED})


def attributes(**named: str) -> dict[str, Any]:
    """Attributes of HTML that are no arguments of components: ``aria_label``, ``data_href``."""
    return {name.replace("_", "-"): text for name, text in named.items()}


HIDDEN = attributes(aria_hidden="true")
"""Of what screen readers leave out, such as a shape beside its name."""


def fact(name: str) -> dict[str, Any]:
    """The attribute of an element that shows one number and nothing else.

    A number with the same name has the same text on every page of a run; a test compares them.

    Args:
        name: Such as ``efficiency``; empty for none.
    """
    return attributes(data_fact=name) if name else {}


def steps_source(of: LaunchSteps) -> html.Span:
    """How many steps of which launch a card is about, and their mean."""
    name = "/".join(of.launch)
    parts: list[Component | str] = [
        html.Span(units.count(num_steady(of.table)), **fact(f"launch-steady-steps {name}")),
        " of ",
        html.Span(units.counted(of.num_steps, "step"), **fact(f"launch-steps {name}")),
    ]
    if of.mean_ns == of.mean_ns:
        mean = units.milliseconds(of.mean_ns)
        parts += [", mean ", html.Span(mean, **fact(f"launch-step-time {name}"))]
    return html.Span([*parts, f", launch {of.label}"])


def fact_table(rows: Sequence[tuple[str, str]]) -> dmc.Table:
    """One row per fact, label and text; a long value wraps, so that nothing scrolls sideways."""
    body = [
        dmc.TableTr([dmc.TableTh(titled(label)), dmc.TableTd(text, className="keep-lines")])
        for label, text in rows
    ]
    return dmc.Table(dmc.TableTbody(body), maw=900, className="facts")


def section(
    title: str,
    *children: Component | None,
    about: str = "",
    hint: str = "",
    tools: Sequence[Component] = (),
) -> dmc.Paper:
    """A card with a heading and, below it, how to read it.

    Args:
        title: Heading; its terms are links too.
        children: Content of the card.
        about: How to read it; terms of the glossary become links with their definition.
        hint: How to read it, shown on hover and focus of a sign beside the heading.
        tools: Small buttons, to the right of the heading.
    """
    # A name of a file is no sentence: "hang.log" is not about a hang.
    shown = title if "/" in title or "." in title else titled(title)
    heading: Component = dmc.Title(shown, order=2, size="h5" if hint else "h4")
    if hint:
        heading = dmc.Group([heading, _hint(title, hint)], gap=6, wrap="nowrap")
    top = [heading]
    if tools:
        top = [
            dmc.Group(
                [heading, dmc.Group(list(tools), gap=4, className="tools")],
                justify="space-between",
                gap="xs",
            )
        ]
    if about:
        known = [term.name for term in terms_in(title)]
        top.append(dmc.Text(linked_terms(about, known), size="sm", className="about"))
    return dmc.Paper(
        dmc.Stack([dmc.Stack(top, gap=2), *children], gap="xs" if hint else "sm"),
        withBorder=True,
        p="xs" if hint else "md",
        radius="md",
    )


def folded(title: str, *children: Component, look: str = "", is_open: bool = False) -> html.Details:
    """Cards that are shown when one opens them.

    Args:
        title: What is in them.
        children: The cards.
        look: Class of the style sheet, ``fold`` or ``finding``; a heading of the page by default.
        is_open: Whether they are shown at first.
    """
    gap = "sm" if look else "md"
    summary = html.Summary(title, className="" if look else "folded")
    parts = [summary, dmc.Stack(list(children), gap=gap, mt=gap)]
    return html.Details(parts, open=is_open, className=look)


def _hint(title: str, text: str) -> dmc.Tooltip:
    label: dict[str, str] = {"aria-label": f"How to read {title}: {text}"}
    return dmc.Tooltip(
        dmc.ActionIcon("?", size="xs", variant="default", radius="xl", **label),
        label=text,
        multiline=True,
        w=320,
        withArrow=True,
        events={"hover": True, "focus": True, "touch": True},
    )


def figure_card(
    name: str,
    title: str,
    figure: go.Figure,
    *extra: Component,
    about: str = "",
    above: Sequence[Component] = (),
    graph_id: str | None = None,
) -> dmc.Paper:
    """A card with a figure that can be saved as PNG and SVG; of an empty one, why it is empty.

    Args:
        name: Unique on its page, lower case with hyphens; the name of the saved file.
        title: Heading.
        figure: The figure, of ``hvdprof.figures``.
        extra: Content below the figure.
        about: How to read it.
        above: Content between the heading and the figure.
        graph_id: Id of the graph, for callbacks.
    """
    if not figure.data and graph_id is None:
        # A figure that only says why it is empty: a sentence needs neither its room nor buttons.
        said = (dmc.Text(note.text, size="sm") for note in figure.layout.annotations)
        return section(title, *above, *said, *extra)
    graph = figure_graph(figure, name, graph_id)
    return section(
        title,
        *above,
        graph,
        *extra,
        about=about,
        tools=[save_button(form, name, title) for form in (Saves.PNG, Saves.SVG)],
    )


def low_figure_card(name: str, title: str, figure: go.Figure, hint: str) -> dmc.Paper:
    """The same for the first screen, with how to read it beside the heading.

    Args:
        name: Unique on its page, lower case with hyphens; the name of the saved file.
        title: Heading.
        figure: The figure, of ``hvdprof.figures``.
        hint: How to read it, shown on hover and focus.
    """
    return section(
        title,
        figure_graph(figure, name),
        hint=hint,
        tools=[save_button(form, name, title) for form in (Saves.PNG, Saves.SVG)],
    )


def figure_graph(figure: go.Figure, label: str, graph_id: str | None = None) -> html.Div:
    """The figure in the width of its container; ``label`` names it for scripts and style sheets."""
    height = figure.layout.height
    named = attributes(id=graph_id) if graph_id else {}
    return html.Div(
        dcc.Graph(figure=figure, config=_CONFIG, className=f"figure {label}", **named),
        # Reserve the height while plotly loads, so that the page does not jump.
        style={"minHeight": f"{height}px"} if height else {},
        className="figure-room",
    )


class Saves(StrEnum):
    """What a button does: its name in ``assets/hvdprof.js``."""

    PNG = "png"
    SVG = "svg"
    CSV = "csv"
    COPY = "copy"


def save_button(saves: Saves, name: str, title: str) -> dmc.Button:
    """A button that saves what has a name on the page, numbers in full.

    Args:
        saves: The form.
        name: The name of a figure or a table, and of the file.
        title: Its heading, for screen readers.
    """
    is_copy = saves is Saves.COPY
    label = f"Copy {title}" if is_copy else f"Save {title} as {saves.upper()}"
    marks = {"data-saves": str(saves), "data-name": name, "aria-label": label}
    text = "Copy" if is_copy else saves.upper()
    return dmc.Button(text, size="compact-xs", variant="default", **marks)


def copied_text(text: str, shown: Component) -> dmc.Group:
    """A text and, to its right, the button; a long text wraps and keeps the width of the button."""
    return dmc.Group(
        [
            dmc.Box(shown, className="grow"),
            dmc.CopyButton(value=text, children="Copy", size="compact-sm", className="keep-size"),
        ],
        gap="xs",
        wrap="nowrap",
    )
