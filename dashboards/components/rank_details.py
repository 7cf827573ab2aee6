"""Costs by phase, and what stands folded below: waits, stalls, tensors, warm-up, negotiations.

Tested in ``tests/dashboards/test_ranks.py``.
"""

import dash_mantine_components as dmc
import pandas as pd
from dash import html
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.data_table import filled_card, table_card
from hvdprof.dashboards.components.finding_cards import timeline_link
from hvdprof.dashboards.components.section import figure_card, steps_source
from hvdprof.dashboards.components.text_table import TextRows, href_of, text_card
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.figures.communication_figures import longest_negotiations, negotiation_times
from hvdprof.figures.launch import LaunchSteps, launches_in, longest_stalls, rows_of_launch
from hvdprof.figures.step_times import step_time_course
from hvdprof.figures.typical_step import step_windows
from hvdprof.figures.waits import wait_by_rank, wait_by_tensor
from hvdprof.model.cell_key import LaunchKey
from hvdprof.model.tables.collective_tables import BREAKDOWN
from hvdprof.model.tables.log_tables import INCIDENTS, STALLS
from hvdprof.model.tables.scaling_tables import LAUNCHES
from hvdprof.model.tables.timeline_tables import INFERRED_STEPS
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, CLOCKS, PATTERNS, STRAGGLERS
from hvdprof.report.screen.rank_phases import Deviation, phase_costs

_CAUSED_WAIT_COLUMNS = (
    *("rank", "share_last", "waited_ns", "caused_wait_ns", "wait_as_last_ns"),
    *("cost_ns", "cost_share", "share_undecided", "num_steps"),
)
_STRAGGLER_COLUMNS = (
    *("rank", "pattern", "phase", "phase_share", "share_late"),
    *("lateness_ns", "longest_run", "cost_ns", "cost_share"),
)
_INCIDENT_COLUMNS = (
    *("file", "line", "rank", "time_ns", "kind"),
    *("failed_rank", "exit_code", "signal", "message", "stack"),
)
_PART_COLUMNS = ("rank", "part", "time_ns", "share")
_INFERRED_COLUMNS = (
    *("step", "dur_ns", "communication_ns", "num_tensors", "size_bytes", "complete", "confidence"),
)
_FEWEST_RANKS = 3
"""Of two ranks each mirrors the other."""


def waits_of_launch(runs: RunStore, run_id: str, launch: LaunchKey) -> list[Component]:
    """Caused wait and stragglers of a launch, as tables and, of three ranks or more, as bars."""
    caused_wait = rows_of_launch(runs.table(run_id, CAUSED_WAIT.name), launch)
    late = rows_of_launch(runs.table(run_id, STRAGGLERS.name), launch)
    cards: list[Component] = []
    if len(caused_wait) >= _FEWEST_RANKS:
        bars = figure_card(
            "wait-by-rank",
            "Wait and caused wait",
            wait_by_rank(caused_wait),
            about="Caused wait (Shapley): the cost of each gap between two arrivals is split among "
            "the ranks still missing. Wait as last rank: the gap before the last arrival.",
        )
        cards.append(bars)
    if len(caused_wait):
        table = table_card(
            "Caused wait",
            CAUSED_WAIT,
            caused_wait.sort_values("caused_wait_ns", ascending=False),
            columns=_CAUSED_WAIT_COLUMNS,
            about=_clocks(rows_of_launch(runs.table(run_id, CLOCKS.name), launch)),
        )
        cards.append(table)
    if len(late) and len(caused_wait):
        patterns = "; ".join(f"{name}: {meaning}" for name, meaning in PATTERNS.items())
        table = table_card(
            "Stragglers",
            STRAGGLERS,
            late.sort_values("cost_ns", ascending=False),
            columns=_STRAGGLER_COLUMNS,
            about=f"Patterns: {patterns}.",
        )
        cards.append(table)
    return cards


def _clocks(clocks: pd.DataFrame) -> str:
    largest = float(clocks["u_ns"].max())
    if largest == 0:
        return "Times per step. All ranks read the same clock."
    return (
        f"Times per step. The clock error is at most {units.milliseconds(largest)}; no wait below "
        "twice that is attributed to a rank."
    )


def tensor_waits(
    runs: RunStore, view: View, arrivals: pd.DataFrame, launch: LaunchKey
) -> list[Component]:
    """The longest stalls, and waits by tensor; nothing without recorded gradients.

    Args:
        runs: The runs.
        view: The view of the page.
        arrivals: COLLECTIVE_ARRIVALS of the steady steps of a launch, or of some of them.
        launch: The launch.
    """
    if arrivals.empty:
        return []
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
        ),
        figure_card(
            "wait-by-tensor",
            "Tensors with the longest wait",
            wait_by_tensor(arrivals),
            about="Wait for the last rank after each ready time, summed over ranks; mean of the "
            "steady steps. Hover over a bar to see the last rank.",
        ),
    ]


def step_course(runs: RunStore, run_id: str, of: LaunchSteps) -> list[Component]:
    """Warm-up and drift of a launch, and the parts of its mean step as a table."""
    breakdown = rows_of_launch(runs.table(run_id, BREAKDOWN.name), of.launch)
    cards: list[Component] = [
        figure_card(
            "step-times",
            "Warm-up and drift",
            step_time_course(
                of.table, rows_of_launch(runs.table(run_id, LAUNCHES.name), of.launch)
            ),
            steps_source(of),
            about="Step time of the job. Hollow points are excluded as warm-up; the line is the "
            "mean of the steady state, with its drift where it is significant.",
        )
    ]
    return cards + filled_card("All parts", BREAKDOWN, breakdown, _PART_COLUMNS)


def negotiations(runs: RunStore, view: View) -> list[Component]:
    """Negotiation times of a timeline, and its longest; nothing without a timeline."""
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
    figure = figure_card(
        "negotiation",
        "Negotiation time of tensors",
        negotiation_times(uses),
        about="From the first ready rank to the last, as rank 0 records it in whole cycles; "
        "all traced launches, without warm-up.",
    )
    if not rows:
        return [figure]
    saved = found.assign(timeline=[href_of(row[-1]) for row in rows])
    table = text_card(
        "longest-negotiations",
        "Longest negotiations",
        TextRows(("tensor", "step", "negotiation", "show"), rows, saved),
        about="The longest negotiation of each step. Horovod's timeline rarely names the rank; "
        "the recorder does.",
    )
    return [figure, table]


def printed(runs: RunStore, run_id: str) -> list[Component]:
    """Stall warnings and failures of the whole run, and steps inferred from a timeline."""
    cards = (
        (
            *("Stall warnings of Horovod and hvdprof", STALLS, None),
            "Tensors that some ranks submitted and others did not.",
        ),
        ("Failures in the output", INCIDENTS, _INCIDENT_COLUMNS, ""),
        (
            *("Steps inferred from the timeline", INFERRED_STEPS, _INFERRED_COLUMNS),
            "Estimated from recurring sets of reduced tensors, with a confidence.",
        ),
    )
    return [
        card
        for title, table, columns, about in cards
        for card in filled_card(title, table, runs.table(run_id, table.name), columns, about)
    ]


def cost_card(costs: pd.DataFrame, suffix: str) -> dmc.Paper | None:
    """What each rank costs in each phase, the costliest first; None with fewer than two ranks."""
    table = phase_costs(costs)
    if table is None:
        return None
    rows: list[tuple[Component | str, ...]] = [
        (f"rank {rank}", *map(_cost, row))
        for rank, row in zip(table.ranks, table.rows, strict=True)
    ]
    left_out = table.num_ranks - len(rows)
    more = f" {units.counted(left_out, 'rank')} that cost less are not shown." * bool(left_out)
    return text_card(
        "rank-costs",
        f"Cost of each rank by phase{suffix}",
        TextRows(("rank", *table.heads), rows, costs),
        about=f"{table.sentence} What a rank's time beyond that of the others adds to a step; "
        f"ranks that are late together share it.{more}".lstrip(),
    )


def _cost(one: Deviation) -> Component:
    style = {"--strength": f"{100 * one.tint * 0.75:.0f}%"} if one.tint else {}
    return html.Span(one.text, className="cost slower" if one.tint else "cost", style=style)
