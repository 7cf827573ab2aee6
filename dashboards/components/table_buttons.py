"""The buttons of a table: copy and save.

Tested in ``tests/dashboards/test_browsing.py``.
"""

import dash_mantine_components as dmc
from dash import MATCH, Dash, Input, State

from hvdprof.dashboards import ids
from hvdprof.dashboards.in_browser import run_in_browser


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
