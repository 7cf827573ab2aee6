"""A titled part of a page, and facts as a table of two columns."""

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.term_link import linked_terms, terms_in, titled
from hvdprof.figures.launch import LaunchSteps, num_steady


def attributes(**named: str) -> dict[str, Any]:
    """Attributes of HTML that are no arguments of components: ``aria_label``, ``data_href``."""
    return {name.replace("_", "-"): text for name, text in named.items()}


HIDDEN = attributes(aria_hidden="true")
"""Of what screen readers leave out, such as a shape beside its name."""


def fact(name: str) -> dict[str, Any]:
    """The attribute of an element that shows one number and nothing else.

    A number with the same name has the same text on every page of a run; a test compares them.

    Args:
        name: Such as ``efficiency``; empty for none.
    """
    return attributes(data_fact=name) if name else {}


def steps_source(of: LaunchSteps) -> html.Span:
    """How many steps of which launch a card is about, and their mean."""
    name = "/".join(of.launch)
    parts: list[Component | str] = [
        html.Span(units.count(num_steady(of.table)), **fact(f"launch-steady-steps {name}")),
        " of ",
        html.Span(units.counted(of.num_steps, "step"), **fact(f"launch-steps {name}")),
    ]
    if of.mean_ns == of.mean_ns:
        mean = units.milliseconds(of.mean_ns)
        parts += [", mean ", html.Span(mean, **fact(f"launch-step-time {name}"))]
    return html.Span([*parts, f", launch {of.label}"])


def fact_table(rows: Sequence[tuple[str, str]]) -> dmc.Table:
    """One row per fact; a long value wraps, so that nothing scrolls sideways.

    Args:
        rows: Label and text of each.
    """
    body = [
        dmc.TableTr([dmc.TableTh(titled(label)), dmc.TableTd(text, className="keep-lines")])
        for label, text in rows
    ]
    return dmc.Table(dmc.TableTbody(body), maw=900, className="facts")


def section(
    title: str,
    *children: Component | None,
    about: str = "",
    hint: str = "",
    tools: Sequence[Component] = (),
) -> dmc.Paper:
    """A card with a heading and, below it, how to read it.

    Args:
        title: Heading; its terms are links too.
        children: Content of the card.
        about: How to read it; terms of the glossary become links with their definition.
        hint: How to read it, shown on hover and focus of a sign beside the heading.
        tools: Small buttons, to the right of the heading.
    """
    # A name of a file is no sentence: "hang.log" is not about a hang.
    shown = title if "/" in title or "." in title else titled(title)
    heading: Component = dmc.Title(shown, order=2, size="h5" if hint else "h4")
    if hint:
        heading = dmc.Group([heading, _hint(title, hint)], gap=6, wrap="nowrap")
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
        known = [term.name for term in terms_in(title)]
        top.append(dmc.Text(linked_terms(about, known), size="sm", className="about"))
    return dmc.Paper(
        dmc.Stack([dmc.Stack(top, gap=2), *children], gap="xs" if hint else "sm"),
        withBorder=True,
        p="xs" if hint else "md",
        radius="md",
    )


def folded(title: str, *children: Component, look: str = "", is_open: bool = False) -> html.Details:
    """Cards that are shown when one opens them.

    Args:
        title: What is in them.
        children: The cards.
        look: Class of the style sheet, ``fold`` or ``finding``; a heading of the page by default.
        is_open: Whether they are shown at first.
    """
    gap = "sm" if look else "md"
    summary = html.Summary(title, className="" if look else "folded")
    parts = [summary, dmc.Stack(list(children), gap=gap, mt=gap)]
    return html.Details(parts, open=is_open, className=look)


def _hint(title: str, text: str) -> dmc.Tooltip:
    label: dict[str, str] = {"aria-label": f"How to read {title}: {text}"}
    return dmc.Tooltip(
        dmc.ActionIcon("?", size="xs", variant="default", radius="xl", **label),
        label=text,
        multiline=True,
        w=320,
        withArrow=True,
        events={"hover": True, "focus": True, "touch": True},
    )
