"""The scaling table of each model, with the same texts as the terminal report."""

import dash_mantine_components as dmc

from hvdprof.report.terminal_page import CELL_HEADS, CellRow, ModelTable

_LEFT = 2
_NARROWEST = 900


def cell_table(table: ModelTable) -> dmc.Stack:
    """One model's cells; on a narrow screen the table scrolls sideways, never the page."""
    head = dmc.TableThead(
        dmc.TableTr([dmc.TableTh(name, ta=_side(place)) for place, name in enumerate(CELL_HEADS)])
    )
    body = dmc.TableTbody([_row(row) for row in table.rows])
    return dmc.Stack(
        [
            dmc.Text([dmc.Text(table.model, span=True, fw=700), f"  {table.caption}"], size="sm"),
            dmc.TableScrollContainer(
                dmc.Table([head, body], highlightOnHover=True, className="numbers"),
                minWidth=_NARROWEST,
                type="native",
            ),
        ],
        gap=4,
    )


def _row(row: CellRow) -> dmc.TableTr:
    cells = (
        row.np,
        f"{row.compression} {row.reduction}",
        row.samples_per_s,
        row.step_median,
        row.step_p95,
        row.efficiency,
        row.blocked,
        row.blocked_share,
        row.observer_cost,
        row.final_loss,
    )
    return dmc.TableTr(
        [dmc.TableTd(text, ta=_side(place)) for place, text in enumerate(cells)],
        className="oversubscribed" if row.oversubscribed else "",
    )


def _side(place: int) -> str:
    return "left" if place < _LEFT else "right"
