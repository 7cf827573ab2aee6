"""A titled part of a page."""

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash.development.base_component import Component

from hvdprof.dashboards.components.term_link import linked_terms


def section(
    title: str, *children: Component | None, about: str = "", tools: Sequence[Component] = ()
) -> dmc.Paper:
    """A card with a heading and, below it, how to read it.

    Args:
        title: Heading.
        children: Content of the card.
        about: How to read it; terms of the glossary become links with their definition.
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
        top.append(dmc.Text(linked_terms(about), size="sm", className="about"))
    return dmc.Paper(
        dmc.Stack([dmc.Stack(top, gap=2), *children], gap="sm"),
        withBorder=True,
        p="md",
        radius="md",
    )
