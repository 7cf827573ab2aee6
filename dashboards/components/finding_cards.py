"""Findings, worst first: title, cost, potential gain, evidence, and how to fix them."""

from collections.abc import Callable

import dash_mantine_components as dmc
import pandas as pd
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.copied_text import copied_text
from hvdprof.model.cell_key import short_name
from hvdprof.model.frame_row import FrameRow
from hvdprof.report.finding_texts import finding_texts

_FIRST = 8


Look = Callable[[str, int, str], Component | str | None]


def finding_list(findings: pd.DataFrame, look: Look) -> list[Component]:
    """A card for each of the first findings, and the others behind one heading.

    Args:
        findings: Rows of ``FINDINGS`` in the order in which they are to be read.
        look: The link from a model, a number of ranks and an engine to its events; ``None``
            without events.
    """
    cards = [_card(row, look) for row in findings.to_dict("records")]
    if len(cards) <= _FIRST:
        return cards
    more = dmc.Accordion(
        dmc.AccordionItem(
            [
                dmc.AccordionControl(f"{units.count(len(cards) - _FIRST)} more"),
                dmc.AccordionPanel(dmc.Stack(cards[_FIRST:], gap="sm")),
            ],
            value="more",
        )
    )
    return [*cards[:_FIRST], more]


def _card(row: FrameRow, look: Look) -> dmc.Paper:
    texts = finding_texts(row)
    head = dmc.Group(
        [
            dmc.Badge(
                texts.severity,
                variant="outline",
                className=f"severity severity-{texts.severity}",
            ),
            dmc.Text(_about(row), size="sm", className="about"),
        ],
        gap="xs",
    )
    parts: list[Component | str] = [head, dmc.Text(texts.title, fw=700), dmc.Text(texts.evidence)]
    if texts.figures:
        parts.append(dmc.Text(texts.figures))
    if texts.quote:
        parts.append(dmc.Code(texts.quote, block=True, className="keep-lines"))
    if texts.action:
        action = dmc.Text(texts.action, fw=600, size="sm", className="keep-lines")
        parts.append(copied_text(texts.action, action))
    link = look(*_cell(row)) if _is_of_cell(row) else None
    if link is not None:
        parts.append(link)
    return dmc.Paper(dmc.Stack(parts, gap=6), withBorder=True, p="sm", radius="sm")


def _about(row: FrameRow) -> str:
    where = short_name(*_cell(row)) if _is_of_cell(row) else ""
    return ", ".join(text for text in (str(row["confidence"]), where) if text)


def _cell(row: FrameRow) -> tuple[str, int, str]:
    return str(row["model"]), int(row["np"]), str(row["engine"])


def _is_of_cell(row: FrameRow) -> bool:
    return bool(row["model"]) and not pd.isna(row["np"])
