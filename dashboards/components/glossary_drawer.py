"""The terms of all pages in a drawer, each with its definition and its formula or source.

``assets/hvdprof.js`` opens it: by its button, the key "?", a term in a text, its old address.
"""

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from hvdprof.dashboards import ids
from hvdprof.dashboards.components.section import attributes
from hvdprof.dashboards.ids import run_in_browser
from hvdprof.model.glossary import GLOSSARY, Term

OLD_PATH = "/glossary"
"""The address of the page that held the terms; it opens the drawer, at the term it names."""

_SIGNS = (
    "N is the number of ranks, T the step time, C the own work of a rank in a step; index 1 is the "
    "baseline, w the samples per rank and step divided by those of the baseline."
)


def drawer() -> dmc.Drawer:
    """The closed drawer, which is filled when it opens first."""
    return dmc.Drawer(
        id=ids.GLOSSARY,
        title="Glossary",
        position="right",
        size="lg",
        keepMounted=True,
        closeButtonProps={"aria-label": "Close the glossary"},
    )


def open_button() -> dmc.ActionIcon:
    """The sign that opens the drawer."""
    looks = attributes(aria_label="Glossary", aria_keyshortcuts="?")
    return dmc.ActionIcon("?", variant="default", size="lg", **looks)


def register(app: Dash) -> None:
    """Fill the drawer, and search its terms."""
    run_in_browser(app, "searchTerms", Input(ids.GLOSSARY_SEARCH, "value"), first=False)

    @app.callback(
        Output(ids.GLOSSARY, "children"),
        Input(ids.GLOSSARY, "opened"),
        State(ids.GLOSSARY, "children"),
        prevent_initial_call=True,
    )
    def fill(opened: object, children: object) -> object:
        if not opened or children:
            raise PreventUpdate
        return terms()


def terms() -> list[Component]:
    """The search and every term, the same for all runs."""
    search = attributes(aria_label="Search terms")
    return [
        dmc.TextInput(id=ids.GLOSSARY_SEARCH, placeholder="Search terms", mb="sm", **search),
        dmc.Text(_SIGNS, size="sm", className="about", mb="sm"),
        html.Div([_entry(term) for term in GLOSSARY], className="glossary"),
    ]


def _entry(term: Term) -> dmc.Stack:
    parts: list[Component] = [
        dmc.Title(term.name, order=3, size="h5"),
        dmc.Text(term.definition.replace("`", ""), size="sm"),
    ]
    if term.formula:
        parts.append(dmc.Code(term.formula, block=True, className="keep-lines"))
    return dmc.Stack(parts, gap=4, id=term.anchor, className="glossary-term")
