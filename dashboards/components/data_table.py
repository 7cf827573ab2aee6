"""A declared table as a grid that can be sorted, filtered and saved as CSV."""

from collections.abc import Sequence
from typing import Any

import dash_ag_grid as dag
import dash_mantine_components as dmc
import pandas as pd
from dash import MATCH, Dash, Input, Output, State

from dashboards import ids
from dashboards.components.section import section
from dashboards.in_browser import run_in_browser
from hvdprof import units
from hvdprof.model.schema import Column, Table

_MOST_ROWS = 5_000
_ROW_HEIGHT = 34
_MOST_SHOWN = 12
_TEXT = "_text"


def table_card(
    title: str,
    table: Table,
    frame: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    about: str = "",
) -> dmc.Paper:
    """A card with the rows of a declared table.

    Numbers are shown with their units and sorted by value; the CSV file holds them in full, in the
    unit that the head of the column names.

    Args:
        title: Heading.
        table: Declaration: names, units and the sentences that explain the columns.
        frame: Its rows, in the order in which they are first shown.
        columns: Names of the columns to show; all where not given.
        about: How to read it, one sentence.
    """
    shown = [one for one in table.columns if columns is None or one.name in columns]
    if columns is not None:
        shown.sort(key=lambda one: list(columns).index(one.name))
    rows = frame.head(_MOST_ROWS)
    if len(frame) > len(rows):
        about += (
            f" The first {units.count(len(rows))} of {units.count(len(frame))} rows; "
            "`hvdprof convert` writes all."
        )
    grid = dag.AgGrid(
        id={"type": ids.TABLE, "name": table.name},
        columnDefs=[_column(one) for one in shown],
        rowData=_records(rows, shown),
        defaultColDef={"sortable": True, "resizable": True, "filter": True},
        columnSize="autoSize",
        csvExportParams={"fileName": f"{table.name}.csv"},
        dashGridOptions={
            "rowHeight": _ROW_HEIGHT,
            "headerHeight": _ROW_HEIGHT,
            "domLayout": "autoHeight" if len(rows) <= _MOST_SHOWN else "normal",
            "tooltipShowDelay": 300,
            "ensureDomOrder": True,
        },
        style={"height": None if len(rows) <= _MOST_SHOWN else _ROW_HEIGHT * (_MOST_SHOWN + 1)},
        className="ag-theme-quartz data-table",
    )
    save = dmc.Button(
        "CSV",
        id={"type": ids.TABLE_SAVE, "name": table.name},
        size="compact-xs",
        variant="default",
        **{"aria-label": f"Save {title} as CSV"},
    )
    return section(title, grid, about=about.strip(), tools=[save])


def register(app: Dash) -> None:
    """Let the buttons of all tables save their rows."""
    run_in_browser(
        app,
        "saveTable",
        Output({"type": ids.TABLE, "name": MATCH}, "exportDataAsCsv"),
        Input({"type": ids.TABLE_SAVE, "name": MATCH}, "n_clicks"),
        State({"type": ids.TABLE, "name": MATCH}, "id"),
        first=False,
    )


def _column(column: Column) -> dict[str, Any]:
    unit = f", {column.unit}" if column.unit else ""
    numeric = _is_number(column)
    shape: dict[str, Any] = {
        "field": column.name,
        "headerName": f"{column.name}{unit}",
        "headerTooltip": column.doc,
        "filter": "agNumberColumnFilter" if numeric else "agTextColumnFilter",
        "useValueFormatterForExport": False,
    }
    if numeric:
        shape["type"] = "rightAligned"
        shape["valueFormatter"] = {"function": f"params.data.{column.name}{_TEXT}"}
    return shape


def _records(rows: pd.DataFrame, columns: Sequence[Column]) -> list[dict[str, Any]]:
    values: dict[str, list[Any]] = {}
    for column in columns:
        series = rows[column.name]
        if not _is_number(column):
            values[column.name] = [None if pd.isna(value) else str(value) for value in series]
            continue
        numbers = pd.to_numeric(series).astype("float64")
        values[column.name] = [None if pd.isna(number) else number for number in numbers]
        values[column.name + _TEXT] = [units.of_unit(number, column.unit) for number in numbers]
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _is_number(column: Column) -> bool:
    return column.dtype.lower().startswith(("int", "float", "uint"))
