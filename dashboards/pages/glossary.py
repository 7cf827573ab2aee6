"""The terms of all pages, each with its definition and its formula or source."""

import dash_mantine_components as dmc
from dash import Dash, html
from dash.development.base_component import Component

from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.model.glossary import GLOSSARY, Term

PATH = "/glossary"
TITLE = "Glossary"
KEYS: tuple[str, ...] = ()


def layout(runs: RunStore, view: View) -> dmc.Paper:
    """Every term, the same for all runs."""
    return section(
        "Terms",
        html.Div([_entry(term) for term in GLOSSARY], className="glossary"),
        about="N is the number of ranks, T the step time, C the own work of a rank in a step; "
        "index 1 is the baseline, w the samples per rank and step divided by those of the "
        "baseline.",
    )


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _entry(term: Term) -> dmc.Stack:
    parts: list[Component] = [
        dmc.Title(term.name, order=3, size="h5"),
        dmc.Text(term.definition.replace("`", ""), size="sm"),
    ]
    if term.formula:
        parts.append(dmc.Code(term.formula, block=True, className="keep-lines"))
    # A link to the term scrolls here; see settleAddress in assets/hvdprof.js.
    return dmc.Stack(parts, gap=4, id=term.anchor, className="glossary-term")
