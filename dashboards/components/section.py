"""A titled part of a page."""

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc


def section(title: str, *children: Any, about: str = "", tools: Sequence[Any] = ()) -> dmc.Paper:
    """A card with a heading and, below it, one sentence that says how to read it.

    Args:
        title: Heading.
        children: What the card holds.
        about: How to read it, one sentence.
        tools: Small buttons, to the right of the heading.
    """
    heading = dmc.Title(title, order=2, size="h4")
    top = [heading]
    if tools:
        top = [
            dmc.Group(
                [heading, dmc.Group(list(tools), gap=4, className="tools")],
                justify="space-between",
                gap="xs",
            )
        ]
    if about:
        top.append(dmc.Text(about, size="sm", className="about"))
    return dmc.Paper(
        dmc.Stack([dmc.Stack(top, gap=2), *children], gap="sm"),
        withBorder=True,
        p="md",
        radius="md",
    )
