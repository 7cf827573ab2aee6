"""A text with a button that copies it."""

import dash_mantine_components as dmc
from dash.development.base_component import Component


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
