"""Facts as a table of two columns: label and value."""

from collections.abc import Sequence

import dash_mantine_components as dmc

from hvdprof.dashboards.components.term_link import titled


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
