"""The empty frame of every page, and the skeleton that stands in it until a page is drawn.

Tested in ``tests/dashboards/test_shell.py``.
"""

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from hvdprof.dashboards import ids
from hvdprof.dashboards.components import glossary_drawer
from hvdprof.dashboards.navigation import header

_LOOK_EVERY_MS = 10_000

_THEME = {
    "fontFamily": "system-ui, sans-serif",
    "primaryColor": "blue",
    # Contrast with white: 4.9 to 1.
    "primaryShade": 8,
}
# A figure redrawn within the page does not cover the page.
_ONLY_THE_PAGE: dict[str, Any] = {"target_components": {ids.PAGE: "children"}}


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
            glossary_drawer.drawer(),
        ],
        theme=_THEME,
        defaultColorScheme="auto",
    )
