"""The cell of the first screen's numbers and figures: from the address, else the verdict's."""

from collections.abc import Sequence

import dash_mantine_components as dmc

from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.view import View
from hvdprof.figures.waterfall_figure import WaterfallCell

_PLAIN = "none average"
_WIDTHS = {"model": 120, "np": 90, "toggles": 130}


def chosen_cell(
    cells: Sequence[WaterfallCell], view: View, model: str, np: int
) -> WaterfallCell | None:
    """The cell in the address, or the nearest to it; None without cells.

    Args:
        cells: The cells to choose from.
        view: The view in the address.
        model: The model where the address names no available one, such as that of the verdict.
        np: The number of ranks where the address names none.
    """

    def distance(cell: WaterfallCell) -> tuple[int, int, int]:
        return (
            _place(cell.model, view.text("model"), model),
            _place(cell.np, view.np, np),
            _place(cell.toggles, view.text("toggles"), _PLAIN),
        )

    return min(cells, key=distance, default=None)


def cell_selects(cells: Sequence[WaterfallCell], chosen: WaterfallCell) -> dmc.Group:
    """Lists of the numbers of ranks, models and toggles; only those with a choice."""
    of_model = [cell for cell in cells if cell.model == chosen.model]
    of_size = [cell for cell in of_model if cell.np == chosen.np]
    offers = (
        ("model", "Model", [cell.model for cell in cells], chosen.model),
        ("np", "Ranks", [str(cell.np) for cell in of_model], str(chosen.np)),
        ("toggles", "Toggles", [cell.toggles for cell in of_size], chosen.toggles),
    )
    return dmc.Group(
        [
            view_select(
                key,
                label,
                [{"value": text, "label": _option(key, text)} for text in dict.fromkeys(values)],
                value,
                size="xs",
                w=_WIDTHS[key],
            )
            for key, label, values, value in offers
            if len(set(values)) > 1 or key == "np"
        ],
        gap=6,
        className="page-choices",
    )


def _option(key: str, text: str) -> str:
    """The text of a choice: ranks with their noun; no toggles where all are off."""
    if key == "np":
        return "1 rank" if text == "1" else f"{text} ranks"
    return "no toggles" if text == _PLAIN else text


def _place(value: object, *preferred: object) -> int:
    return preferred.index(value) if value in preferred else len(preferred)
