"""Parts of a step, by rank and over the steps, and the steady state of step times."""

import dash_mantine_components as dmc
import pandas as pd
from dash import Dash
from dash.development.base_component import Component

from hvdprof.dashboards.components.data_table import table_card
from hvdprof.dashboards.components.empty_state import Lack, lack_card
from hvdprof.dashboards.components.figure_card import figure_card
from hvdprof.dashboards.components.first_screen import headline_bar
from hvdprof.dashboards.components.section import folded
from hvdprof.dashboards.components.view_control import LAUNCH_KEYS, chosen_launch, launch_select
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.figures.launch import rows_of_cell, rows_of_launch
from hvdprof.figures.step_times import (
    parts_by_rank,
    parts_over_steps,
    slowest_and_median,
    step_time_course,
    step_time_distribution,
)
from hvdprof.model.tables.collective_tables import BREAKDOWN
from hvdprof.model.tables.run_tables import STEPS
from hvdprof.model.tables.scaling_tables import LAUNCHES
from hvdprof.model.tables.timeline_tables import INFERRED_STEPS
from hvdprof.model.tables.waiting_tables import RANK_COSTS
from hvdprof.report.screen.launch_answers import parts_answer

PATH = "/breakdown"
TITLE = "Step breakdown"
KEYS: tuple[str, ...] = LAUNCH_KEYS

_LOW = 250
"""Pixels of figures of which several share a screen."""

_PART_COLUMNS = ("rank", "part", "time_ns", "share")
_NO_PARTS = Lack(
    "No recorder files: a timeline alone does not hold the parts of a step.",
    ("hvdprof bench --preset quick", "hvdprof run -np 4 python train.py"),
    about="This page then shows data, forward, backward, blocked time and optimizer of each rank, "
    "and how steps change over time.",
)


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of a run or a standalone file."""
    steps = runs.table(str(view.run), STEPS.name)
    launch = chosen_launch(runs, view, steps)
    if launch is not None:
        return dmc.Stack(_of_launch(runs, view, launch), gap="md")
    return dmc.Stack([lack_card(_NO_PARTS), *_inferred(runs, str(view.run))], gap="md")


def lack(runs: RunStore, run_id: str) -> Lack | None:
    """A run without recorder files."""
    return None if len(runs.table(run_id, STEPS.name)) else _NO_PARTS


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _of_launch(runs: RunStore, view: View, launch: tuple[str, str]) -> list[Component]:
    run_id = str(view.run)
    recording = runs.run(run_id)
    breakdown = rows_of_launch(runs.table(run_id, BREAKDOWN.name), launch)
    costs = rows_of_launch(runs.table(run_id, RANK_COSTS.name), launch)
    of_job = runs.table(run_id, "job_steps")
    by_launch = runs.table(run_id, LAUNCHES.name)
    select = launch_select(runs, view, recording.steps, launch)
    cards = [
        *([select] if select is not None else []),
        *([headline_bar(parts_answer(breakdown, costs))] if len(breakdown) else []),
        figure_card(
            "parts-by-rank",
            "Mean step of each rank",
            parts_by_rank(breakdown).update_layout(height=_LOW),
            about="Steady steps. Exposed communication is the time the rank is blocked in "
            "synchronize(): waiting for stragglers, and transfer.",
        ),
        *_over_steps(rows_of_launch(recording.steps, launch)),
        figure_card(
            "step-distribution",
            "Step time distribution",
            step_time_distribution(rows_of_cell(recording.segments, of_job, launch)).update_layout(
                height=_LOW
            ),
            about="Steady steps of all launches of this cell. Launches that differ show why one "
            "launch is not enough.",
        ),
    ]
    details: list[Component] = [
        figure_card(
            "step-times",
            "Warm-up and drift",
            step_time_course(rows_of_launch(of_job, launch), rows_of_launch(by_launch, launch)),
            about="Step time of the job. Hollow points are excluded as warm-up; the line is the "
            "mean of the steady state with its drift.",
        ),
    ]
    if len(breakdown):
        details.append(table_card("All parts", BREAKDOWN, breakdown, columns=_PART_COLUMNS))
    return [*cards, folded("Details: warm-up and drift, all parts", *details)]


def _over_steps(steps: pd.DataFrame) -> list[Component]:
    """The parts of each step of the slowest rank, and of the median one below it."""
    return [
        figure_card(
            f"parts-over-steps-{kind}",
            f"Steps of rank {rank}: {kind} own work",
            parts_over_steps(steps[(steps["rank"] == rank).to_numpy()]),
            about="Own work is what a rank is not blocked in. Grey steps do not count: warm-up, "
            "and the first step of each turn.",
        )
        for rank, kind in zip(slowest_and_median(steps), ("longest", "median"), strict=False)
    ]


def _inferred(runs: RunStore, run_id: str) -> list[Component]:
    steps = runs.table(run_id, INFERRED_STEPS.name)
    if steps.empty:
        return []
    return [
        table_card(
            "Steps inferred from the timeline",
            INFERRED_STEPS,
            steps,
            about="Estimated from recurring sets of reduced tensors, with a confidence.",
        )
    ]
