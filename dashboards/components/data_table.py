"""A declared table as a grid that can be sorted, filtered and saved as CSV."""

from collections.abc import Mapping, Sequence

import dash_ag_grid as dag
import dash_mantine_components as dmc
import pandas as pd
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards import ids
from hvdprof.dashboards.components.section import Saves, save_button, section
from hvdprof.dashboards.components.term_link import term_list, terms_in
from hvdprof.model.schema import Column, Table
from hvdprof.report.terminal.table_section import (
    column_texts,
    ends_of_intervals,
    heading,
    interval_ends,
    is_number,
)

_MOST_ROWS = 400
_ROW_HEIGHT = 34
_MOST_SHOWN = 12
_TEXT = "_text"
_LONG_TEXT = 60
"""Characters of a text from which on its column wraps instead of growing."""
_WRAPPED: dict[str, object] = {
    "wrapText": True,
    "autoHeight": True,
    "cellClass": "wrapped",
    "width": 420,
    "suppressAutoSize": True,
}


def table_card(
    title: str,
    table: Table,
    frame: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    about: str = "",
) -> dmc.Paper:
    """A card with the rows of a declared table.

    Numbers are shown with units and intervals, and sorted by value. The CSV file holds the columns
    under their declared names, with full numbers in the declared unit, and the ends of intervals
    as separate columns.

    Args:
        title: Heading.
        table: Declaration: names, units and descriptions of the columns.
        frame: Its rows, in their initial order.
        columns: Names of the columns to show, in this order; all by default. The ends of
            their intervals are included.
        about: How to read it.
    """
    shown = _shown(table, columns)
    rows = frame.head(_MOST_ROWS)
    if len(frame) > len(rows):
        about += (
            f" The first {units.count(len(rows))} of {units.count(len(frame))} rows; "
            "`hvdprof convert` writes all."
        )
    is_long = len(rows) > _MOST_SHOWN
    records = _records(rows, table, shown)
    grid = dag.AgGrid(
        id={"type": ids.TABLE, "name": table.name},
        columnDefs=_definitions(table, shown, records, has_filters=is_long),
        rowData=records,
        defaultColDef={"sortable": True, "resizable": True},
        columnSize="autoSize",
        dashGridOptions={
            "rowHeight": _ROW_HEIGHT,
            "headerHeight": _ROW_HEIGHT,
            "domLayout": "normal" if is_long else "autoHeight",
            "tooltipShowDelay": 300,
            "ensureDomOrder": True,
        },
        style={"height": _ROW_HEIGHT * (_MOST_SHOWN + 1) if is_long else None},
        className="ag-theme-quartz data-table",
    )
    tools = [save_button(form, table.name, title) for form in (Saves.COPY, Saves.CSV)]
    # Headings of a grid hold no links: a line of their terms is reached by the keyboard too.
    linked = [term.name for term in terms_in(title, about)]
    terms = term_list([heading(column) for column in shown], linked)
    return section(title, terms, grid, about=about.strip(), tools=tools)


def filled_card(
    title: str,
    table: Table,
    frame: pd.DataFrame,
    columns: Sequence[str] | None = None,
    about: str = "",
) -> list[Component]:
    """The card of ``table_card``; none where the frame has no rows."""
    return [table_card(title, table, frame, columns=columns, about=about)] if len(frame) else []


def _shown(table: Table, columns: Sequence[str] | None) -> list[Column]:
    by_name = {column.name: column for column in table.columns}
    ends = ends_of_intervals(table)
    return [by_name[name] for name in columns or by_name if name not in ends]


def _definitions(
    table: Table,
    shown: Sequence[Column],
    records: Sequence[Mapping[str, object]],
    *,
    has_filters: bool,
) -> list[dict[str, object]]:
    definitions = []
    for column in shown:
        definition = _definition(column, has_filter=has_filters)
        if max((len(str(row[column.name])) for row in records), default=0) > _LONG_TEXT:
            definition |= _WRAPPED
        definitions.append(definition)
        definitions += [
            {"field": end.name, "hide": True} for end in interval_ends(column, table) or ()
        ]
    return definitions


def _definition(column: Column, *, has_filter: bool) -> dict[str, object]:
    unit = f", {column.unit}" if column.unit else ""
    numeric = is_number(column)
    meanings = [term.definition.replace("`", "") for term in terms_in(heading(column))]
    shape: dict[str, object] = {
        "field": column.name,
        "headerName": heading(column),
        "headerTooltip": " ".join([*meanings, f"{column.doc} (CSV: {column.name}{unit})"]),
        "useValueFormatterForExport": False,
    }
    if has_filter:
        shape["filter"] = "agNumberColumnFilter" if numeric else "agTextColumnFilter"
    if numeric:
        shape["type"] = "rightAligned"
        shape["valueFormatter"] = {"function": f"params.data.{column.name}{_TEXT}"}
    return shape


def _records(
    rows: pd.DataFrame, table: Table, columns: Sequence[Column]
) -> list[dict[str, object]]:
    values: dict[str, Sequence[object]] = {}
    for column in columns:
        texts = column_texts(column, table, rows)
        if not is_number(column):
            values[column.name] = texts
            continue
        values[column.name + _TEXT] = texts
        for interval_end in (column, *(interval_ends(column, table) or ())):
            numbers = pd.to_numeric(rows[interval_end.name]).astype("float64")
            values[interval_end.name] = [None if pd.isna(number) else number for number in numbers]
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
