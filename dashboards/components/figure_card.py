"""A plotly figure in a card, and buttons that copy or save figures, rows and texts.

Tested in ``tests/dashboards/test_browsing.py``.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import cast

import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component

from hvdprof.dashboards.components.section import attributes, section
from hvdprof.figures.palette import BUTTONS_REMOVED, PLOT_CONFIG

# A card has its own button for PNG.
_REMOVED = [*BUTTONS_REMOVED, "toImage"]
_CONFIG = cast(dcc.Graph.Config, PLOT_CONFIG | {"modeBarButtonsToRemove": _REMOVED})


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
    """A text and, to its right, the button; a long text wraps and keeps the width of the button.

    Args:
        text: The copied text.
        shown: The component that shows it.
    """
    return dmc.Group(
        [
            dmc.Box(shown, className="grow"),
            dmc.CopyButton(value=text, children="Copy", size="compact-sm", className="keep-size"),
        ],
        gap="xs",
        wrap="nowrap",
    )
