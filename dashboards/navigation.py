"""The frame of every page: its navigation, the drawer of terms, and what stands in it at first.

Tested in ``tests/dashboards/test_shell.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from hvdprof.dashboards import ids
from hvdprof.dashboards.components.empty_state import Lack, lack_texts
from hvdprof.dashboards.components.section import HIDDEN, attributes
from hvdprof.dashboards.ids import run_in_browser
from hvdprof.dashboards.pages import Page, Tab
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.model.glossary import GLOSSARY, Term

_PAGES_LABEL = attributes(aria_label="Pages")
_VIEWS_LABEL = attributes(aria_label="Views")

_LOOK_EVERY_MS = 10_000

_THEME = {
    "fontFamily": "system-ui, sans-serif",
    "primaryColor": "blue",
    # Contrast with white: 4.9 to 1.
    "primaryShade": 8,
}
# A figure redrawn within the page does not cover the page.
_ONLY_THE_PAGE: dict[str, Any] = {"target_components": {ids.PAGE: "children"}}

OLD_PATH = "/glossary"
"""The address of the page that held the terms; it opens the drawer, at the term it names."""

_SIGNS = (
    "N is the number of ranks, T the step time, C the own work of a rank in a step; index 1 is the "
    "baseline, w the samples per rank and step divided by those of the baseline."
)


def lacks_of(tabs: Sequence[Tab], runs: RunStore, run_id: str | None) -> dict[str, Lack]:
    """By path, what the empty pages of a run lack; only of a run that is read already.

    The navigation is drawn at once: it waits for no run, and one that is measured can fill its
    pages at any time.
    """
    if run_id is None or not runs.is_read(run_id):
        return {}
    entry = runs.entry(run_id)
    if entry is not None and entry.is_open:
        return {}

    def look() -> dict[str, Lack]:
        found = {page.PATH: page.lack(runs, run_id) for tab in tabs for page in tab.pages}
        return {path: lack for path, lack in found.items() if lack is not None}

    return runs.made(run_id, "lacks", look)


def tab_links(
    tabs: Sequence[Tab], page: Page | None, view: View, lacks: Mapping[str, Lack], *, is_open: bool
) -> list[Component]:
    """The links of the navigation, with the choices of a view; seldom tabs of open runs alone."""
    shown = [tab for tab in tabs if page in tab.pages or not tab.is_seldom or is_open]
    links = [
        [_tab_link(tab, page, view, lacks) for tab in shown if tab.is_apart == apart]
        for apart in (False, True)
    ]
    return [*links[0], html.Span(className="shell-gap"), *links[1]]


def _tab_link(tab: Tab, page: Page | None, view: View, lacks: Mapping[str, Lack]) -> Component:
    """The link of a tab; grey, and with what would fill it, where all its pages are empty."""
    opened = next((one for one in tab.pages if one.PATH not in lacks), None)
    looks = attributes(aria_keyshortcuts=tab.key) if tab.key else {}
    if page in tab.pages:
        looks["aria-current"] = "page"
    classes = ["shell-link", *(["shell-here"] if page in tab.pages else [])]
    target = tab.pages[0] if opened is None else opened
    return _link(tab.title, view.at(target.PATH).href, classes, looks, lacks.get(target.PATH))


def links_beside(
    tabs: Sequence[Tab], page: Page | None, view: View, lacks: Mapping[str, Lack]
) -> list[Component]:
    """Links to the pages of the same tab; the first page has cards instead."""
    of_tab = next((tab.pages for tab in tabs if page in tab.pages), ())
    if len(of_tab) < 2 or page is tabs[0].pages[0]:
        return []
    links = [
        _link(
            one.TITLE,
            view.at(one.PATH).href,
            ["shell-view", *(["shell-here"] if one is page else [])],
            {"aria-current": "page"} if one is page else {},
            lacks.get(one.PATH),
        )
        for one in of_tab
    ]
    return [html.Nav(links, className="shell-views", **_VIEWS_LABEL)]


def _link(
    title: str, href: str, classes: list[str], looks: Mapping[str, Any], lack: Lack | None
) -> Component:
    if lack is None:
        full: Component = dmc.Anchor(
            title, href=href, underline="hover", className=" ".join(classes), **looks
        )
        return full
    empty = [title, html.Span(": no data", className="unseen")]
    link = dmc.Anchor(
        empty, href=href, underline="hover", className=" ".join([*classes, "shell-empty"]), **looks
    )
    return html.Div([link, html.Div(lack_texts(lack), className="shell-why")])


def header() -> list[Component]:
    """The header: callbacks fill its links and its choice of the run, each by itself."""
    return [
        dmc.Text("hvdprof", fw=700, size="lg", className="shell-name"),
        html.Nav(id=ids.HEADER_LINKS, className="shell-nav", **_PAGES_LABEL),
        html.Div(id=ids.HEADER_RUN, className="shell-run"),
        open_button(),
        dmc.ColorSchemeToggle(
            lightIcon=html.Span("☀", **HIDDEN),
            darkIcon=html.Span("☾", **HIDDEN),
            variant="default",
            size="lg",
            **{"aria-label": "Light or dark"},
        ),
    ]


def frame() -> dmc.MantineProvider:
    """The empty shell; callbacks fill it according to the address."""
    return dmc.MantineProvider(
        [
            dcc.Location(id=ids.LOCATION, refresh="callback-nav"),
            dcc.Store(id=ids.DRAWN),
            dcc.Store(id=ids.DUE),
            dcc.Store(id=ids.HEADER_DRAWN),
            dcc.Interval(id=ids.CLOCK, interval=_LOOK_EVERY_MS),
            dmc.Anchor("Skip to the content", href=f"#{ids.PAGE}", className="skip-link"),
            dmc.Container(
                [
                    html.Header(header(), className="shell-header"),
                    html.Div(id=ids.NOTICE, role="status"),
                    dcc.Loading(
                        html.Main(id=ids.PAGE, tabIndex="-1", className="shell-page"),
                        id=ids.WAIT,
                        delay_show=300,
                        custom_spinner=html.Div(className="skeleton"),
                        **_ONLY_THE_PAGE,
                    ),
                ],
                size="xl",
                pb="xl",
            ),
            drawer(),
        ],
        theme=_THEME,
        defaultColorScheme="auto",
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
