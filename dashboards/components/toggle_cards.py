"""The effect of fp16, Adasum and DDP: speedup and training loss.

Tested in ``tests/dashboards/test_compare.py``.
"""

from dash.development.base_component import Component

from hvdprof.dashboards.components.data_table import table_card
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.dashboards.components.figure_card import figure_card
from hvdprof.figures.toggle_effects import learning_curves, toggle_speedups
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waterfall_tables import TOGGLES

_TOGGLE_COLUMNS = (
    "model",
    "np",
    "engine",
    "toggle",
    "verdict",
    "speedup",
    "sent_bytes_ratio",
    "blocked_saved_ns",
    "own_work_added_ns",
    "loss_ratio",
    "reason",
)


def toggle_cards(analysis: RunAnalysis) -> list[Component]:
    """The speedup of each toggle, or the command that measures one."""
    toggles = analysis.table(TOGGLES.name)
    if toggles.empty:
        return [
            empty_state(
                "No toggle was measured together with the same configuration without it.",
                "hvdprof bench --np 1,2 --fp16-allreduce --use-adasum --engine horovod,ddp",
                about="With both, this page shows the speedup of fp16 compression, Adasum and DDP.",
            )
        ]
    return [
        figure_card(
            "toggles",
            "Speedup of fp16, Adasum and DDP",
            toggle_speedups(toggles),
            about="Throughput divided by that of the same cell without the toggle (DDP: by that of "
            "Horovod), paired by repeat. Intervals are corrected for the number of comparisons; "
            "the dashed line marks no change.",
        ),
        table_card("Toggles", TOGGLES, toggles, columns=_TOGGLE_COLUMNS),
    ]


def loss_cards(analysis: RunAnalysis, model: str, num_ranks: str) -> list[Component]:
    """The training loss of a model on a number of ranks; nothing where none is recorded."""
    recording = analysis.run
    figure = learning_curves(recording.steps, recording.segments, model, int(num_ranks))
    if not figure.data:
        return []
    about = (
        f"Training loss of {model} at np={num_ranks}, one line per launch. A speedup counts only "
        "at the same loss."
    )
    return [figure_card("learning", "Training loss", figure, about=about)]
