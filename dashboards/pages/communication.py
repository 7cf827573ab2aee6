"""What collectives cost: size against time, bandwidth, fusion, overlap and cycles."""

from typing import Any

import dash_mantine_components as dmc
from dash import Dash

from hvdprof.dashboards.components.data_table import table_card
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.dashboards.components.figure_card import figure_card
from hvdprof.dashboards.components.launch_choice import KEY, chosen_launch, launch_select
from hvdprof.dashboards.components.network_cards import network_cards
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.figures.cycles import cycle_times, has_cycles
from hvdprof.figures.fusion_figure import fusion_fill, messages_per_step
from hvdprof.figures.launch import rows_of_launch
from hvdprof.figures.overlap_figure import overlap_per_step
from hvdprof.figures.transfer_sizes import bus_bandwidth, transfer_by_size
from hvdprof.model.tables.collective_tables import COLLECTIVES, LINK_FIT, OVERLAP

PATH = "/communication"
TITLE = "Communication"
KEYS: tuple[str, ...] = ("np", KEY)

_FIT_COLUMNS = (
    "np",
    "collective",
    "alpha_ns",
    "beta_ns_per_mb",
    "bandwidth_gb_per_s",
    "reason",
    "num_executions",
    "num_sizes",
)
_COLLECTIVE_COLUMNS = (
    "step",
    "collective",
    "num_tensors",
    "size_bytes",
    "negotiation_ns",
    "hold_ns",
    "lag_ns",
    "queue_ns",
    "copy_ns",
    "transfer_ns",
    "busbw_gb_per_s",
    "fill",
)


def layout(runs: RunStore, view: View) -> Any:
    """What the page shows of a run or a lone file."""
    collectives = runs.table(str(view.run), COLLECTIVES.name)
    launch = chosen_launch(runs, view, collectives)
    network = network_cards(runs, str(view.run))
    if launch is None:
        nothing = empty_state(
            "No collective is recorded here: only Horovod's timeline tells them.",
            "hvdprof bench --preset quick",
            "HOROVOD_TIMELINE=timeline.json horovodrun -np 4 python train.py",
            about="A benchmark traces one pass of each number of ranks; a timeline of your own "
            "job can be opened here too: hvdprof dashboard timeline.json",
        )
        return dmc.Stack([*network, nothing], gap="md")
    cards = [*_of_run(runs, view), *network, *_of_launch(runs, view, launch)]
    return dmc.Stack(cards, gap="md")


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _of_run(runs: RunStore, view: View) -> list[Any]:
    run_id = str(view.run)
    recording = runs.run(run_id)
    collectives, fits = runs.table(run_id, COLLECTIVES.name), runs.table(run_id, LINK_FIT.name)
    sizes = transfer_by_size(collectives, recording.segments, fits, recording.table("nccl_choices"))
    busbw = bus_bandwidth(collectives, recording.segments, recording.table("nccl_tests"))
    cards = [
        figure_card(
            "transfer-by-size",
            "Size against time",
            sizes,
            about="Medians over the executions of each payload, bars from 5 to 95 % of them; the "
            "dashed line is alpha + beta * bytes. A transfer lasts until the last rank has "
            "entered, so a late rank makes both larger.",
        )
    ]
    if len(fits):
        cards.append(
            table_card(
                "Latency and bandwidth",
                LINK_FIT,
                fits,
                columns=_FIT_COLUMNS,
                about="alpha is the time of an empty message, beta what a MB more takes.",
            )
        )
    return [
        *cards,
        figure_card(
            "bus-bandwidth",
            "Bus bandwidth",
            busbw,
            about="Payload by time, times the share of links that the collective needs, as "
            "nccl-tests define it: comparable between numbers of ranks.",
        ),
        figure_card(
            "fusion-fill",
            "How full the fusion buffer is",
            fusion_fill(collectives),
            about="Payload of an execution by HOROVOD_FUSION_THRESHOLD. Far below 100 % a larger "
            "threshold changes nothing; a longer HOROVOD_CYCLE_TIME may.",
        ),
        *_cycles(runs, run_id),
    ]


def _cycles(runs: RunStore, run_id: str) -> list[Any]:
    events = runs.run(run_id).events
    if not has_cycles(events):
        return [
            empty_state(
                "This timeline marks no cycles, so how long they really were is not known.",
                "HOROVOD_TIMELINE_MARK_CYCLES=1 HOROVOD_TIMELINE=timeline.json "
                "horovodrun -np 4 python train.py",
            )
        ]
    return [
        figure_card(
            "cycles",
            "Cycles of Horovod's loop",
            cycle_times(events),
            about="From one cycle to the next; HOROVOD_CYCLE_TIME (1 ms where unset) is the least.",
        )
    ]


def _of_launch(runs: RunStore, view: View, launch: tuple[str, str]) -> list[Any]:
    run_id = str(view.run)
    collectives = runs.table(run_id, COLLECTIVES.name)
    rows = rows_of_launch(collectives, launch)
    select = launch_select(runs, view, collectives, launch)
    overlap = rows_of_launch(runs.table(run_id, OVERLAP.name), launch)
    return [
        *([select] if select is not None else []),
        figure_card(
            "messages",
            "Messages a step",
            messages_per_step(rows),
            about="How many collectives Horovod executed in each step, and the tensors in them. "
            "Many small ones cost alpha each.",
        ),
        figure_card(
            "overlap",
            "Overlap with work",
            overlap_per_step(overlap),
            about="Time in which a collective was in progress, by what the rank did meanwhile; "
            "mean over ranks. What is covered costs nothing.",
        ),
        table_card(
            "Every collective of this launch",
            COLLECTIVES,
            rows.sort_values("transfer_ns", ascending=False),
            columns=_COLLECTIVE_COLUMNS,
            about="The longest transfer first.",
        ),
    ]
