"""Who waited for whom: late ranks, the tensors they are waited for, and the longest stalls."""

from typing import Any

import dash_mantine_components as dmc
import pandas as pd
from dash import Dash

from hvdprof import units
from hvdprof.dashboards.components.data_table import table_card
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.dashboards.components.figure_card import figure_card
from hvdprof.dashboards.components.launch_choice import KEY, LaunchKey, chosen_launch, launch_select
from hvdprof.dashboards.components.text_table import text_card
from hvdprof.dashboards.components.timeline_link import timeline_link
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.figures.lateness_map import lateness_map
from hvdprof.figures.launch import launches_in, rows_of_launch
from hvdprof.figures.negotiation import longest_negotiations, negotiation_times
from hvdprof.figures.step_window import step_windows
from hvdprof.figures.waits import longest_stalls, steady_arrivals, wait_by_rank, wait_by_tensor
from hvdprof.model.tables.log_tables import INCIDENTS, STALLS
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, CLOCKS, LATENESS, PATTERNS, STRAGGLERS

PATH = "/stalls"
TITLE = "Stalls"
KEYS: tuple[str, ...] = ("np", KEY)

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
    "cost_together_ns",
)


def layout(runs: RunStore, view: View) -> Any:
    """What the page shows of a run or a lone file."""
    parts = [*_recorded(runs, view), *_negotiated(runs, view), *_printed(runs, view)]
    if parts:
        return dmc.Stack(parts, gap="md")
    return empty_state(
        "Nobody's waiting is recorded here: that takes two ranks with hvdprof's recorder, or a "
        "timeline of Horovod.",
        "hvdprof bench --preset quick",
        "hvdprof run -np 4 python train.py",
        about="This page then shows which rank was late in which step, by how much, in which "
        "phase, and what that cost the others.",
    )


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _recorded(runs: RunStore, view: View) -> list[Any]:
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
    return [
        *([select] if select is not None else []),
        figure_card(
            "lateness",
            "Who is late, step by step",
            lateness_map(rows_of_launch(runs.table(run_id, LATENESS.name), launch)),
            about="How much longer a rank needed from release to arrival than the median of the "
            "others, by its own clock. Orange is late, blue is early.",
        ),
        figure_card(
            "wait-by-rank",
            "Who waited, and for whom",
            wait_by_rank(rows_of_launch(caused_wait, launch)),
            about="Fair share: the time between two arrivals is split among the ranks that are "
            "still missing. As the last: what the last arrival would have been earlier without it.",
        ),
        *_ranks(runs, run_id, launch),
        figure_card(
            "wait-by-tensor",
            "The tensors that are waited for",
            wait_by_tensor(arrivals),
            about="From the first rank that had a gradient ready to the last, summed over ranks; "
            "mean of the steady steps. Point at a bar to see who is last.",
        ),
        *_stalls(runs, view, arrivals, launch),
    ]


def _ranks(runs: RunStore, run_id: str, launch: LaunchKey) -> list[Any]:
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
        return "Times a step. All ranks read the same clock."
    return (
        f"Times a step. Clocks are known to {units.milliseconds(largest)}; nothing below twice "
        "that is blamed on a rank."
    )


def _stalls(runs: RunStore, view: View, arrivals: pd.DataFrame, launch: LaunchKey) -> list[Any]:
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
            ("tensor", "step", "last", "first to last rank", "look at it"),
            rows,
            about="The tensor of each step for which the first rank waited longest, steady steps "
            "alone.",
        )
    ]


def _negotiated(runs: RunStore, view: View) -> list[Any]:
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
            "How long tensors are negotiated",
            negotiation_times(uses),
            about="From the first rank that was ready to the last, as rank 0 saw it in whole "
            "cycles of Horovod's loop; all traced launches, warm-up left out.",
        ),
        *(
            [
                text_card(
                    "longest-negotiations",
                    "Longest negotiations",
                    ("tensor", "step", "negotiation", "look at it"),
                    rows,
                    about="The longest of each step. Horovod's timeline rarely names the rank: "
                    "the recorder does.",
                )
            ]
            if rows
            else []
        ),
    ]


def _printed(runs: RunStore, view: View) -> list[Any]:
    run_id = str(view.run)
    stalls, incidents = runs.table(run_id, STALLS.name), runs.table(run_id, INCIDENTS.name)
    cards = []
    if len(stalls):
        cards.append(
            table_card(
                "Horovod's stall warnings",
                STALLS,
                stalls,
                about="Tensors that some ranks submitted and others did not for a minute or more.",
            )
        )
    if len(incidents):
        cards.append(table_card("What else went wrong", INCIDENTS, incidents))
    return cards
