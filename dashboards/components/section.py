"""A titled part of a page."""

from typing import Any

import dash_mantine_components as dmc


def section(title: str, *children: Any, about: str = "") -> dmc.Paper:
    """A card with a heading and, below it, one sentence that says how to read it."""
    heading: list[Any] = [dmc.Title(title, order=2, size="h4")]
    if about:
        heading.append(dmc.Text(about, size="sm", c="gray.7"))
    return dmc.Paper(
        dmc.Stack([dmc.Stack(heading, gap=2), *children], gap="sm"),
        withBorder=True,
        p="md",
        radius="md",
    )
