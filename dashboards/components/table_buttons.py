"""Buttons that copy or save: the rows of a table, a text.

Tested in ``tests/dashboards/test_browsing.py``.
"""

import dash_mantine_components as dmc
from dash import MATCH, Dash, Input, State
from dash.development.base_component import Component

from hvdprof.dashboards import ids
from hvdprof.dashboards.ids import run_in_browser


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


def copy_button(name: str, title: str) -> dmc.Button:
    """A button that copies the rows of a table, with their numbers in full.

    Args:
        name: Name of the table, as that of the saved file.
        title: Heading of the table for screen readers.
    """
    return dmc.Button(
        "Copy",
        id={"type": ids.TABLE_COPY, "name": name},
        size="compact-xs",
        variant="default",
        **{"aria-label": f"Copy {title}"},
    )


def register(app: Dash) -> None:
    """Let the buttons of all tables copy their rows."""
    run_in_browser(
        app,
        "copyTable",
        Input({"type": ids.TABLE_COPY, "name": MATCH}, "n_clicks"),
        State({"type": ids.TABLE_COPY, "name": MATCH}, "id"),
        first=False,
    )
