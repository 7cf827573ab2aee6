import json

import pytest
from plotly.utils import PlotlyJSONEncoder

from hvdprof.dashboards.components.view_control import cell_selects, chosen_cell
from hvdprof.dashboards.view import View
from hvdprof.figures.waterfall_figure import WaterfallCell

CELLS = [
    WaterfallCell("mnist", 2),
    WaterfallCell("mnist", 4),
    WaterfallCell("mnist", 4, "horovod", "fp16", "average"),
    WaterfallCell("resnet18", 2),
    WaterfallCell("resnet18", 2, "ddp"),
]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, CELLS[1]),
        ({"np": "2"}, CELLS[0]),
        ({"toggles": "fp16"}, CELLS[2]),
        ({"toggles": "fp16", "np": "2"}, CELLS[0]),
        ({"model": "resnet18", "np": "4"}, CELLS[3]),
        ({"model": "resnet18", "toggles": "DDP"}, CELLS[4]),
        ({"model": "../etc", "np": "99"}, CELLS[1]),
    ],
)
def test_the_address_chooses_and_what_is_not_there_falls_back(values, expected):
    assert chosen_cell(CELLS, View("/", values), "mnist", 4) == expected


def test_without_cells_nothing_is_chosen():
    assert chosen_cell([], View("/", {}), "mnist", 4) is None


@pytest.mark.parametrize(
    ("chosen", "keys"),
    [(CELLS[0], ["model", "np"]), (CELLS[2], ["model", "np", "toggles"])],
)
def test_only_what_leaves_a_choice_is_offered(chosen, keys):
    shown = json.loads(json.dumps(cell_selects(CELLS, chosen), cls=PlotlyJSONEncoder))
    assert [one["props"]["id"]["key"] for one in shown["props"]["children"]] == keys
