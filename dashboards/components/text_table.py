"""A small table of finished texts and links, for what is no declared table."""

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc

_NARROWEST = 560


def text_table(
    head: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    left: int = 1,
    narrowest: int = _NARROWEST,
) -> dmc.TableScrollContainer:
    """Rows of texts; on a narrow screen the table scrolls sideways, never the page.

    Args:
        head: Names of the columns.
        rows: A cell a column: a text, or a component such as a link.
        left: How many columns stand to the left; the others are numbers and stand to the right.
        narrowest: Pixels below which it scrolls.
    """
    sides = ["left" if place < left else "right" for place in range(len(head))]
    return dmc.TableScrollContainer(
        dmc.Table(
            [
                dmc.TableThead(
                    dmc.TableTr(
                        [dmc.TableTh(name, ta=side) for name, side in zip(head, sides, strict=True)]
                    )
                ),
                dmc.TableTbody(
                    [
                        dmc.TableTr(
                            [
                                dmc.TableTd(cell, ta=side)
                                for cell, side in zip(row, sides, strict=True)
                            ]
                        )
                        for row in rows
                    ]
                ),
            ],
            highlightOnHover=True,
            className="numbers",
        ),
        minWidth=narrowest,
        type="native",
    )
