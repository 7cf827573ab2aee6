"""A text that is meant to be pasted elsewhere, with a button that copies it."""

from typing import Any

import dash_mantine_components as dmc


def copied_text(text: str, shown: Any) -> dmc.Group:
    """A text and, to its right, the button; a long text wraps and leaves the button its room.

    Args:
        text: What is copied.
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
