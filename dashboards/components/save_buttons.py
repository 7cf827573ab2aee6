"""Buttons that copy or save: a figure, the rows of a table, a text. The browser does it alone.

Tested in ``tests/dashboards/test_browsing.py``.
"""

from enum import StrEnum

import dash_mantine_components as dmc
from dash.development.base_component import Component


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
