"""Small tables of texts and links, and the sections of a report as cards."""

from collections.abc import Sequence
from dataclasses import dataclass

import dash_mantine_components as dmc
import pandas as pd
from dash import html
from dash.development.base_component import Component

from hvdprof.dashboards.components.section import Saves, attributes, save_button, section
from hvdprof.dashboards.components.term_link import linked_terms, titled, with_code
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import Table
from hvdprof.report.sections.run_sections import SECTIONS
from hvdprof.report.sections.section import Section

_NARROWEST = 560


@dataclass(frozen=True, slots=True)
class TextRows:
    """Rows as they are shown, and as they are saved.

    Attributes:
        head: Names of the columns, their terms as links.
        rows: One cell per column: a text, or a component such as a link.
        saved: The same rows with full numbers in the declared units, the ends of intervals in
            columns of their own, under the declared names.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Component | str]]
    saved: pd.DataFrame


def text_card(
    name: str,
    title: str,
    table: TextRows,
    *,
    about: str = "",
    left: int | Sequence[bool] = 1,
    narrowest: int = _NARROWEST,
) -> dmc.Paper:
    """A card with rows of texts whose numbers can be saved as CSV.

    Args:
        name: Unique on its page, lower case with hyphens; the name of the saved file.
        title: Heading.
        table: The rows.
        about: How to read it.
        left: Number of left-aligned columns, which hold names; or which they are.
        narrowest: Pixels below which the table scrolls sideways.
    """
    shown = text_table(table.head, table.rows, left=left, narrowest=narrowest)
    return section(
        title, saveable(name, shown, table.saved), about=about, tools=_tools(name, title)
    )


def section_cards(analysis: RunAnalysis, *tables: Table) -> list[Component]:
    """The sections that a report has on some tables, one card each; their numbers as CSV.

    Args:
        analysis: The analysis of a run.
        tables: Those of ``SECTIONS``; other tables have none.
    """
    return [
        _section_card(f"{shown.table.name}-{place}", part, analysis.table(shown.table.name))
        for shown in SECTIONS
        if shown.table in tables
        for place, part in enumerate(shown.shape(analysis))
    ]


def _section_card(name: str, part: Section, saved: pd.DataFrame) -> dmc.Paper:
    title = f"{part.title}: {part.detail}" if part.detail else part.title
    parts: list[Component] = []
    if part.rows:
        heads = [head.name.replace("\n", " ") for head in part.heads]
        sides = [head.is_text for head in part.heads]
        parts.append(
            saveable(name, text_table(heads, part.rows, left=sides, narrowest=_NARROWEST), saved)
        )
    if part.note:
        parts.append(dmc.Text(linked_terms(part.note), size="sm"))
    if part.sentences:
        sentences = [dmc.ListItem(with_code(text)) for text in part.sentences]
        parts.append(dmc.List(sentences, size="sm"))
    tools = _tools(name, title) if part.rows else []
    return section(title, *parts, about=part.caption, tools=tools)


def _tools(name: str, title: str) -> list[Component]:
    return [save_button(form, name, title) for form in (Saves.COPY, Saves.CSV)]


def saveable(name: str, table: Component, saved: pd.DataFrame) -> html.Div:
    """A table whose numbers ``save_button`` of the same name writes."""
    marked = attributes(
        data_rows=name,
        data_csv=saved.to_csv(index=False, lineterminator="\r\n"),
        # Spreadsheets take columns from the clipboard where tabs separate them.
        data_tabs=saved.to_csv(index=False, sep="\t"),
    )
    return html.Div(table, **marked)


def href_of(link: Component | str) -> str:
    """The address of a link for a saved table; empty where there is none."""
    return "" if isinstance(link, str) else str(getattr(link, "href", ""))


def text_table(
    head: Sequence[str],
    rows: Sequence[Sequence[Component | str]],
    *,
    left: int | Sequence[bool],
    narrowest: int,
    row_classes: Sequence[str] = (),
) -> html.Div:
    """Rows of texts; on a narrow screen the table scrolls sideways, never the page.

    Args:
        head: Names of the columns.
        rows: One cell per column: a text, or a component such as a link.
        left: Number of left-aligned columns, or which they are; the others are numbers.
        narrowest: Pixels below which it scrolls.
        row_classes: One class per row, for the style sheet; none by default.
    """
    flags = [place < left for place in range(len(head))] if isinstance(left, int) else left
    sides = ["left" if flag else "right" for flag in flags]
    classes = row_classes or [""] * len(rows)
    above = [dmc.TableTh(titled(name), ta=side) for name, side in zip(head, sides, strict=True)]
    below = [
        dmc.TableTr(
            [dmc.TableTd(cell, ta=side) for cell, side in zip(row, sides, strict=True)],
            className=look,
        )
        for row, look in zip(rows, classes, strict=True)
    ]
    # Focusable, so that the keyboard can scroll it.
    return html.Div(
        dmc.Table(
            [dmc.TableThead(dmc.TableTr(above)), dmc.TableTbody(below)],
            highlightOnHover=True,
            verticalSpacing=4,
            className="numbers",
            miw=narrowest,
        ),
        className="sideways",
        tabIndex="0",
    )
