"""The scaling table of each model, with the same texts as the terminal report."""

import dash_mantine_components as dmc
import pandas as pd
from dash import html
from dash.development.base_component import Component

from hvdprof.dashboards.components.save_buttons import Saves, save_button
from hvdprof.dashboards.components.section import fact
from hvdprof.dashboards.components.text_table import saveable, text_table
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.report.screen.tiles import STEP_TIME_FACT
from hvdprof.report.terminal.report_page import CELL_HEADS, CellRow, ModelTable

_LEFT = 2
_NARROWEST = 900


def cell_table(table: ModelTable, scaling: pd.DataFrame, main: FrameRow | None) -> dmc.Stack:
    """One model's cells; on a narrow screen the table scrolls sideways, never the page.

    Args:
        table: The cells as texts.
        scaling: SCALING, whose rows of that model are saved.
        main: The row of SCALING whose numbers other pages show, too.
    """
    key = () if main is None else tuple(str(main[name]) for name in CELL_KEY)
    name = f"scaling-{table.model}"
    caption = [dmc.Text(table.model, span=True, fw=700), f"  {table.caption}"]
    cells = text_table(
        CELL_HEADS,
        [_cells(row, STEP_TIME_FACT if row.key == key else "") for row in table.rows],
        left=_LEFT,
        narrowest=_NARROWEST,
        row_classes=["oversubscribed" if row.oversubscribed else "" for row in table.rows],
    )
    return dmc.Stack(
        [
            dmc.Group(
                [
                    # A basis of 0 keeps the width of the button where the caption wraps.
                    dmc.Text(caption, size="sm", className="grow", style={"flexBasis": 0}),
                    save_button(Saves.CSV, name, f"the numbers of {table.model}"),
                ],
                gap="xs",
                wrap="nowrap",
            ),
            saveable(name, cells, scaling[(scaling["model"] == table.model).to_numpy(dtype=bool)]),
        ],
        gap=4,
    )


def _cells(row: CellRow, step_fact: str) -> tuple[Component | str, ...]:
    return (
        row.np,
        row.setting,
        row.samples_per_s,
        html.Span(row.step_median, **fact(step_fact)),
        row.step_p95,
        row.efficiency,
        row.blocked,
        row.blocked_share,
        row.trace_overhead,
        row.final_loss,
    )
