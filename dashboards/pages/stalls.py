"""Waiting between ranks: stragglers, their tensors, and the longest stalls."""

import dash_mantine_components as dmc
import pandas as pd
from dash import Dash
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.data_table import table_card
from hvdprof.dashboards.components.empty_state import Lack, lack_card
from hvdprof.dashboards.components.figure_card import figure_card
from hvdprof.dashboards.components.finding_links import timeline_link
from hvdprof.dashboards.components.first_screen import headline_bar
from hvdprof.dashboards.components.phase_strip import phase_strip
from hvdprof.dashboards.components.section import folded
from hvdprof.dashboards.components.text_table import TextRows, href_of, text_card
from hvdprof.dashboards.components.view_control import LAUNCH_KEYS, chosen_launch, launch_select
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.figures.communication_figures import longest_negotiations, negotiation_times
from hvdprof.figures.launch import launches_in, rows_of_launch
from hvdprof.figures.typical_step import step_windows
from hvdprof.figures.waits import (
    lateness_map,
    longest_stalls,
    steady_arrivals,
    wait_by_rank,
    wait_by_tensor,
)
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.tables.log_tables import INCIDENTS, STALLS
from hvdprof.model.tables.waiting_tables import (
    CAUSED_WAIT,
    CLOCKS,
    LATENESS,
    PATTERNS,
    RANK_COSTS,
    STRAGGLERS,
)
from hvdprof.report.screen.launch_answers import waiting_answer, when_answer
from hvdprof.report.screen.rank_phases import launch_phases

PATH = "/stalls"
TITLE = "Stalls"
KEYS: tuple[str, ...] = LAUNCH_KEYS

_CAUSED_WAIT_COLUMNS = (
    "rank",
    "share_last",
    "waited_ns",
    "caused_wait_ns",
    "wait_as_last_ns",
    "cost_ns",
    "cost_share",
    "share_undecided",
    "num_steps",
)
_STRAGGLER_COLUMNS = (
    "rank",
    "pattern",
    "phase",
    "phase_share",
    "share_late",
    "lateness_ns",
    "longest_run",
    "cost_ns",
    "cost_share",
)
_INCIDENT_COLUMNS = (
    *("file", "line", "rank", "time_ns", "kind"),
    *("failed_rank", "exit_code", "signal", "message", "stack"),
)


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of a run or a standalone file."""
    missing = lack(runs, str(view.run))
    if missing is not None:
        return lack_card(missing)
    recorded, negotiated = _recorded(runs, view), _negotiated(runs, view)
    if recorded and negotiated:
        negotiated = [folded("Details: negotiations", *negotiated)]
    parts = [*recorded, *negotiated, *_printed(runs, view)]
    return dmc.Stack(parts, gap="md")


def lack(runs: RunStore, run_id: str) -> Lack | None:
    """A run without recorded waits, negotiations, warnings and failures."""
    tables = (CAUSED_WAIT.name, "tensor_uses", STALLS.name, INCIDENTS.name)
    if any(len(runs.table(run_id, name)) for name in tables):
        return None
    return Lack(
        "No wait data in this run: recorder files of at least two ranks, or a Horovod timeline, "
        "are required.",
        ("hvdprof bench --preset quick", "hvdprof run -np 4 python train.py"),
        about="This page then shows stragglers with step, lateness and phase, and the wait that "
        "they cause.",
    )


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _recorded(runs: RunStore, view: View) -> list[Component]:
    run_id = str(view.run)
    caused_wait = runs.table(run_id, CAUSED_WAIT.name)
    launch = chosen_launch(runs, view, caused_wait)
    if launch is None:
        return []
    arrivals = steady_arrivals(
        rows_of_launch(runs.table(run_id, "collective_arrivals"), launch),
        rows_of_launch(runs.table(run_id, "job_steps"), launch),
    )
    select = launch_select(runs, view, caused_wait, launch)
    late = rows_of_launch(runs.table(run_id, STRAGGLERS.name), launch)
    phases = launch_phases(rows_of_launch(runs.table(run_id, RANK_COSTS.name), launch))
    return [
        *([select] if select is not None else []),
        headline_bar(waiting_answer(rows_of_launch(caused_wait, launch), late)),
        figure_card(
            "lateness",
            "Lateness of each rank, step by step",
            lateness_map(
                rows_of_launch(runs.table(run_id, LATENESS.name), launch),
                rows_of_launch(runs.table(run_id, "job_steps"), launch),
                late,
            ),
            about=f"{when_answer(late)} Time from release to arrival on the rank's own clock, "
            "minus the median of the other ranks. Orange is late, blue is early; at the right "
            "means with their 95 % intervals.".lstrip(),
        ),
        *([phase_strip(phases)] if phases is not None else []),
        *_stalls(runs, view, arrivals, launch),
        folded(
            "Details: caused wait, stragglers, tensors",
            *_caused(rows_of_launch(caused_wait, launch)),
            *_ranks(runs, run_id, launch),
            *_tensors(arrivals),
        ),
    ]


def _caused(caused_wait: pd.DataFrame) -> list[Component]:
    """Wait of each rank and the wait that it causes; of two ranks each mirrors the other."""
    if len(caused_wait) < 3:
        return []
    return [
        figure_card(
            "wait-by-rank",
            "Wait and caused wait",
            wait_by_rank(caused_wait),
            about="Caused wait (Shapley): the cost of each gap between two arrivals is split among "
            "the ranks still missing. Wait as last rank: the gap before the last arrival.",
        )
    ]


def _tensors(arrivals: pd.DataFrame) -> list[Component]:
    """Waits by tensor; nothing where no gradients are recorded, as in a light recording."""
    if arrivals.empty:
        return []
    return [
        figure_card(
            "wait-by-tensor",
            "Tensors with the longest wait",
            wait_by_tensor(arrivals),
            about="Wait for the last rank after each ready time, summed over ranks; mean of the "
            "steady steps. Hover over a bar to see the last rank.",
        )
    ]


def _ranks(runs: RunStore, run_id: str, launch: LaunchKey) -> list[Component]:
    caused_wait = rows_of_launch(runs.table(run_id, CAUSED_WAIT.name), launch)
    late = rows_of_launch(runs.table(run_id, STRAGGLERS.name), launch)
    patterns = "; ".join(f"{name}: {meaning}" for name, meaning in PATTERNS.items())
    cards = [
        table_card(
            "Caused wait",
            CAUSED_WAIT,
            caused_wait.sort_values("caused_wait_ns", ascending=False),
            columns=_CAUSED_WAIT_COLUMNS,
            about=_clocks(rows_of_launch(runs.table(run_id, CLOCKS.name), launch)),
        )
    ]
    if len(late):
        cards.append(
            table_card(
                "Stragglers",
                STRAGGLERS,
                late.sort_values("cost_ns", ascending=False),
                columns=_STRAGGLER_COLUMNS,
                about=f"Patterns: {patterns}.",
            )
        )
    return cards


def _clocks(clocks: pd.DataFrame) -> str:
    largest = float(clocks["u_ns"].max())
    if largest == 0:
        return "Times per step. All ranks read the same clock."
    return (
        f"Times per step. The clock error is at most {units.milliseconds(largest)}; no wait below "
        "twice that is attributed to a rank."
    )


def _stalls(
    runs: RunStore, view: View, arrivals: pd.DataFrame, launch: LaunchKey
) -> list[Component]:
    found = longest_stalls(arrivals)
    windows = step_windows(runs.run(str(view.run)), launch, found["step"])
    rows = [
        (
            row["tensor"],
            units.count(row["step"]),
            f"rank {row['last_rank']}" if row["decided"] else "not decided",
            units.milliseconds(row["wait_ns"]),
            timeline_link(view, launch, row["step"], windows),
        )
        for row in found.to_dict("records")
    ]
    if not rows:
        return []
    return [
        text_card(
            "longest-stalls",
            "Longest stalls",
            TextRows(
                ("tensor", "step", "last", "first to last rank", "show"),
                rows,
                found.assign(timeline=[href_of(row[-1]) for row in rows]),
            ),
            about="The tensor with the longest wait in each steady step.",
        )
    ]


def _negotiated(runs: RunStore, view: View) -> list[Component]:
    uses = runs.table(str(view.run), "tensor_uses")
    if uses.empty:
        return []
    found = longest_negotiations(uses)
    windows = {
        launch: step_windows(runs.run(str(view.run)), launch, rows_of_launch(found, launch)["step"])
        for launch in launches_in(found)
    }
    rows = [
        (
            row["tensor"],
            units.count(row["step"]) if row["step"] >= 0 else units.MISSING,
            units.milliseconds(row["negotiation_ns"]),
            timeline_link(view, launch, row["step"], windows[launch]),
        )
        for row in found.to_dict("records")
        for launch in [(str(row["pass_id"]), str(row["segment"]))]
    ]
    return [
        figure_card(
            "negotiation",
            "Negotiation time of tensors",
            negotiation_times(uses),
            about="From the first ready rank to the last, as rank 0 records it in whole cycles; "
            "all traced launches, without warm-up.",
        ),
        *(
            [
                text_card(
                    "longest-negotiations",
                    "Longest negotiations",
                    TextRows(
                        ("tensor", "step", "negotiation", "show"),
                        rows,
                        found.assign(timeline=[href_of(row[-1]) for row in rows]),
                    ),
                    about="The longest negotiation of each step. Horovod's timeline rarely names "
                    "the rank; the recorder does.",
                )
            ]
            if rows
            else []
        ),
    ]


def _printed(runs: RunStore, view: View) -> list[Component]:
    run_id = str(view.run)
    stalls, incidents = runs.table(run_id, STALLS.name), runs.table(run_id, INCIDENTS.name)
    cards = []
    if len(stalls):
        cards.append(
            table_card(
                "Stall warnings of Horovod and hvdprof",
                STALLS,
                stalls,
                about="Tensors that some ranks submitted and others did not for a minute or more.",
            )
        )
    if len(incidents):
        cards.append(table_card("Other failures", INCIDENTS, incidents, columns=_INCIDENT_COLUMNS))
    return cards
