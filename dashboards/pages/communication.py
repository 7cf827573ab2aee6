"""Collectives: size against time, bandwidth, fusion, overlap and cycles."""

import math

import dash_mantine_components as dmc
from dash import Dash
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.data_table import filled_card, table_card
from hvdprof.dashboards.components.diagnosis_cards import headline_bar
from hvdprof.dashboards.components.empty_state import Lack, empty_state, lack_card
from hvdprof.dashboards.components.network_cards import network_cards
from hvdprof.dashboards.components.section import figure_card
from hvdprof.dashboards.components.text_table import section_cards
from hvdprof.dashboards.components.view_control import LAUNCH_KEYS, chosen_launch, launch_select
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.figures.communication_figures import (
    cycle_times,
    fusion_fill,
    has_cycles,
    messages_per_step,
    overlap_per_step,
)
from hvdprof.figures.launch import rows_of_launch
from hvdprof.figures.transfer_sizes import bus_bandwidth, transfer_by_size
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import LaunchKey
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.collective_tables import COLLECTIVES, LINK_FIT, OVERLAP
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_BANDWIDTHS
from hvdprof.model.tables.sample_tables import NET_LINKS

PATH = "/communication"
TITLE = "Communication"
KEYS: tuple[str, ...] = LAUNCH_KEYS

_FIT_COLUMNS = (
    *("np", "collective", "alpha_ns", "beta_ns_per_mb", "bandwidth_gb_per_s", "reason"),
    *("num_executions", "num_sizes"),
)
_COLLECTIVE_COLUMNS = (
    *("step", "collective", "num_tensors", "size_bytes", "negotiation_ns", "hold_ns"),
    *("lag_ns", "queue_ns", "copy_ns", "transfer_ns", "busbw_gb_per_s", "fill"),
)
_FITTED = (("latency", "alpha", "ns", "ns"), ("bandwidth", "bandwidth", "gb_per_s", "GB/s"))
"""Name of a number of a fit, its columns, their unit, and how it is written."""

_NO_COLLECTIVES = Lack(
    "No collectives: only a Horovod timeline holds them.",
    (
        "hvdprof bench --preset quick",
        "HOROVOD_TIMELINE=timeline.json horovodrun -np 4 python train.py",
    ),
    about="hvdprof bench traces one pass per number of ranks. A timeline of your own job works "
    "too: hvdprof dashboard timeline.json",
)


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of a run or a standalone file."""
    collectives = runs.table(str(view.run), COLLECTIVES.name)
    launch = chosen_launch(runs, view, collectives)
    finished = runs.finished(str(view.run))
    bandwidths = (
        section_cards(finished, COLLECTIVE_BANDWIDTHS) if isinstance(finished, RunAnalysis) else []
    )
    network = [*bandwidths, *network_cards(runs, str(view.run))]
    if launch is None:
        return dmc.Stack([*network, lack_card(_NO_COLLECTIVES)], gap="md")
    answer = headline_bar(_answer(runs, str(view.run), launch))
    cards = [answer, *_of_run(runs, view), *network, *_of_launch(runs, view, launch)]
    return dmc.Stack(cards, gap="md")


def lack(runs: RunStore, run_id: str) -> Lack | None:
    """A run without collectives and without a measured network."""
    tables = (COLLECTIVES, COLLECTIVE_BANDWIDTHS, NET_LINKS)
    is_filled = any(len(runs.table(run_id, table.name)) for table in tables)
    return None if is_filled else _NO_COLLECTIVES


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _answer(runs: RunStore, run_id: str, launch: LaunchKey) -> str:
    """What a collective of the launch costs, and how much of it computation hides."""
    rows = rows_of_launch(runs.table(run_id, COLLECTIVES.name), launch)
    median_ns = float(rows["transfer_ns"].median())
    number = units.counted(len(rows), "collective")
    sentences = [f"{number} in this launch, transfer {units.milliseconds(median_ns)} (median)."]
    overlap = rows_of_launch(runs.table(run_id, OVERLAP.name), launch)
    whole = float(overlap["communication_ns"].sum())
    if whole > 0:
        hidden = units.percent(float(overlap["overlapped_ns"].sum()) / whole, 0)
        sentences.append(f"Computation hides {hidden} of the communication time.")
    fits = runs.table(run_id, LINK_FIT.name)
    fitted = fits[(fits["reason"] == "").to_numpy(dtype=bool)]
    if len(fitted):
        best = fitted.to_dict("records")[int(fitted["num_executions"].to_numpy().argmax())]
        sentences.append(fitted_text(best))
    return " ".join(sentences)


def fitted_text(fit: FrameRow) -> str:
    """Latency and bandwidth of a row of LINK_FIT, those whose interval is no wider than they are.

    The table of the page has every interval.
    """
    known = [
        f"{name} {units.of_unit(float(fit[f'{of}_{unit}']), text)}"
        for name, of, unit, text in _FITTED
        if not math.isnan(fit[f"{of}_{unit}"])
        and not fit[f"{of}_high_{unit}"] - fit[f"{of}_low_{unit}"] > fit[f"{of}_{unit}"]
    ]
    numbers = ", ".join(known) or f"latency and bandwidth {units.UNKNOWN}"
    return f"{fit['collective']} on {units.counted(int(fit['np']), 'rank')}: {numbers}."


def _of_run(runs: RunStore, view: View) -> list[Component]:
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
            about="Median over the executions of each payload, with bars from the 5th to the 95th "
            "percentile; the dashed line is alpha + beta * bytes. A transfer includes the wait for "
            "a straggler, which makes both larger.",
        )
    ]
    about = "alpha is the time of an empty message, beta the additional time per MB."
    cards += filled_card("Latency and bandwidth", LINK_FIT, fits, _FIT_COLUMNS, about)
    return [
        *cards,
        figure_card(
            "bus-bandwidth",
            "Bus bandwidth",
            busbw,
            about="busbw as in nccl-tests: payload divided by transfer time, times the bus factor. "
            "Comparable between numbers of ranks.",
        ),
        figure_card(
            "fusion-fill",
            "Fill of the fusion buffer",
            fusion_fill(collectives),
            about="Payload of an execution divided by HOROVOD_FUSION_THRESHOLD. Far below 100 %, a "
            "larger threshold changes nothing; a longer HOROVOD_CYCLE_TIME can.",
        ),
        *_cycles(runs, run_id),
    ]


def _cycles(runs: RunStore, run_id: str) -> list[Component]:
    events = runs.run(run_id).events
    if not has_cycles(events):
        return [
            empty_state(
                "This timeline holds no cycle marks, so the measured cycle time is unknown.",
                "HOROVOD_TIMELINE_MARK_CYCLES=1 HOROVOD_TIMELINE=timeline.json "
                "horovodrun -np 4 python train.py",
            )
        ]
    return [
        figure_card(
            "cycles",
            "Cycles of Horovod's loop",
            cycle_times(events),
            about="Measured cycle time; HOROVOD_CYCLE_TIME (1 ms by default) is the lower bound.",
        )
    ]


def _of_launch(runs: RunStore, view: View, launch: LaunchKey) -> list[Component]:
    run_id = str(view.run)
    collectives = runs.table(run_id, COLLECTIVES.name)
    rows = rows_of_launch(collectives, launch)
    select = launch_select(runs, view, collectives, launch)
    overlap = rows_of_launch(runs.table(run_id, OVERLAP.name), launch)
    return [
        *([select] if select is not None else []),
        figure_card(
            "messages",
            "Messages per step",
            messages_per_step(rows),
            about="Executed collectives in each step, and the tensors in them. Each collective "
            "costs at least alpha.",
        ),
        figure_card(
            "overlap",
            "Overlap with computation",
            overlap_per_step(overlap),
            about="Communication time, split by the state of the rank; mean over ranks. Overlapped "
            "communication costs nothing.",
        ),
        table_card(
            "Every collective of this launch",
            COLLECTIVES,
            rows.sort_values("transfer_ns", ascending=False),
            columns=_COLLECTIVE_COLUMNS,
            about="Sorted by transfer time, longest first.",
        ),
    ]
