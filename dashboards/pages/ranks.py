"""Who waits for whom and where a rank loses time, step by step and in steps that a reader chooses.

The matrix of ranks and steps holds the choice: a drag over it, or two numbers. It is kept in the
address, and everything below the matrix is about the chosen steps.
"""

from dataclasses import dataclass

import dash_mantine_components as dmc
import pandas as pd
from dash import Dash, Input, State, html
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.api.tables import costs_by_steps
from hvdprof.dashboards import ids
from hvdprof.dashboards.components.diagnosis_cards import headline_bar
from hvdprof.dashboards.components.empty_state import Lack, lack_card
from hvdprof.dashboards.components.rank_details import (
    cost_card,
    negotiations,
    printed,
    step_course,
    tensor_waits,
    waits_of_launch,
)
from hvdprof.dashboards.components.section import fact, figure_card, folded, steps_source
from hvdprof.dashboards.components.view_control import LAUNCH_KEYS, chosen_launch, launch_select
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.figures.launch import (
    LaunchSteps,
    launch_steps,
    launches_in,
    num_steady,
    rows_of_cell,
    rows_of_launch,
)
from hvdprof.figures.step_times import (
    parts_over_steps,
    step_time_course,
    step_time_distribution,
    steps_of_ranks,
)
from hvdprof.figures.typical_step import run_strip
from hvdprof.figures.waits import frame, lateness_map, steady_arrivals
from hvdprof.model.cell_key import LaunchKey
from hvdprof.model.tables.collective_tables import BREAKDOWN
from hvdprof.model.tables.log_tables import INCIDENTS, STALLS
from hvdprof.model.tables.run_tables import STEPS
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES
from hvdprof.model.tables.timeline_tables import TENSOR_USES
from hvdprof.model.tables.waiting_tables import (
    CAUSED_WAIT,
    COLLECTIVE_ARRIVALS,
    LATENESS,
    RANK_COSTS,
    STRAGGLERS,
)
from hvdprof.report.screen.rank_bars import parts_answer, waiting_answer, when_answer
from hvdprof.report.screen.tiles import STEPS_FACT, verdict_cell

PATH = "/ranks"
TITLE = "Ranks"
_FIRST, _LAST = "first", "last"
KEYS: tuple[str, ...] = (*LAUNCH_KEYS, _FIRST, _LAST)

_HEIGHT = 240
"""Pixels of the distribution, beside the table of costs."""


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of a run or a standalone file."""
    missing = lack(runs, str(view.run))
    if missing is not None:
        return lack_card(missing)
    recorded, negotiated = _recorded(runs, view), negotiations(runs, view)
    if recorded and negotiated:
        negotiated = [folded("Details: negotiations", *negotiated)]
    return dmc.Stack([*recorded, *negotiated, *printed(runs, str(view.run))], gap="sm")


def lack(runs: RunStore, run_id: str) -> Lack | None:
    """A run without recorded steps, negotiations, warnings and failures."""
    tables = (STEPS, TENSOR_USES, STALLS, INCIDENTS)
    if any(len(runs.table(run_id, table.name)) for table in tables):
        return None
    return Lack(
        "No wait data in this run: recorder files of the ranks, or a Horovod timeline, are "
        "required.",
        ("hvdprof bench --preset quick", "hvdprof run -np 4 python train.py"),
        about="This page then shows which rank is late in which step and phase, what that costs, "
        "and what the steps consist of.",
    )


def register(app: Dash, runs: RunStore) -> None:
    """Put the chosen steps into the address."""
    ids.run_in_browser(
        app,
        "chooseSteps",
        Input(ids.STEPS_FIRST, "value"),
        Input(ids.STEPS_LAST, "value"),
        Input(ids.STEPS_ALL, "n_clicks"),
        Input(ids.STEPS_GRAPH, "selectedData"),
        State(ids.STEPS_FIRST, "min"),
        State(ids.STEPS_LAST, "max"),
        first=False,
    )


@dataclass(frozen=True, slots=True)
class _Shown:
    """A launch, its rows of JOB_STEPS and STEPS, all of its steps, and the ends of the choice."""

    run_id: str
    launch: LaunchKey
    of_job: pd.DataFrame
    steps: pd.DataFrame
    every: LaunchSteps
    first: int
    last: int

    @property
    def is_all(self) -> bool:
        """Whether no step is left out."""
        return len(self.chosen(self.steps)) == len(self.steps)

    def chosen(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of the chosen steps."""
        return table[table["step"].between(self.first, self.last).to_numpy(dtype=bool)]

    @property
    def suffix(self) -> str:
        """Of which steps a card is, for its heading."""
        return "" if self.is_all else f", steps {self.first} to {self.last}"


def _recorded(runs: RunStore, view: View) -> list[Component]:
    run_id = str(view.run)
    every = runs.table(run_id, STEPS.name)
    launch = chosen_launch(runs, view, every)
    if launch is None:
        return []
    steps = rows_of_launch(every, launch)
    of_job = rows_of_launch(runs.table(run_id, JOB_STEPS.name), launch)
    lowest, highest = int(steps["step"].min()), int(steps["step"].max())
    first, last = view.whole(_FIRST), view.whole(_LAST)
    first = min(max(lowest if first is None else first, lowest), highest)
    last = max(min(highest if last is None else last, highest), first)
    launches = runs.table(run_id, LAUNCHES.name)
    of_launch = launch_steps(runs.run(run_id), of_job, launches, launch)
    shown = _Shown(run_id, launch, of_job, steps, of_launch, first, last)
    select = launch_select(runs, view, every, launch)
    arrivals = rows_of_launch(runs.table(run_id, COLLECTIVE_ARRIVALS.name), launch)
    waits = [
        *waits_of_launch(runs, run_id, launch),
        *tensor_waits(runs, view, shown.chosen(steady_arrivals(arrivals, of_job)), launch),
    ]
    return [
        *_answers(runs, shown, select),
        _matrix(runs, shown),
        *_chosen_steps(runs, shown),
        *([folded("Details: caused wait, stragglers, tensors", *waits)] if waits else []),
        folded("Details: warm-up and drift, all parts", *step_course(runs, run_id, of_launch)),
    ]


def _answers(runs: RunStore, shown: _Shown, select: dmc.Group | None) -> list[Component]:
    """What the launch says as a whole: a stall or failure, else who costs most; its choice."""
    caused_wait, late, parts = (
        rows_of_launch(runs.table(shown.run_id, table.name), shown.launch)
        for table in (CAUSED_WAIT, STRAGGLERS, BREAKDOWN)
    )
    lead = runs.analysis(shown.run_id).verdict.parts.lead
    answers = lead, waiting_answer(caused_wait, late), parts_answer(parts, shown.every.mean_ns)
    sentences = [sentence for sentence in answers if sentence]
    chosen = [] if select is None else select.children
    beside = [*chosen, *(dmc.Text(one, size="sm") for one in sentences[1:])]
    return [*(headline_bar(one) for one in sentences[:1]), dmc.Group(beside)]


def _matrix(runs: RunStore, shown: _Shown) -> dmc.Paper:
    """All ranks and steps, and the choice; of one rank, which is late for no other, the steps."""
    lateness, late = (
        rows_of_launch(runs.table(shown.run_id, table.name), shown.launch)
        for table in (LATENESS, STRAGGLERS)
    )
    if len(lateness["rank"].unique()) > 1:
        title = "Lateness of each rank, step by step"
        figure = lateness_map(lateness, shown.every.table, late)
        about = (
            f"{when_answer(late)} Time from release to arrival on the rank's own clock, minus the "
            "median of the other ranks. Orange is late, blue is early; at the right means with "
            "their 95 % intervals."
        ).strip()
    else:
        title, about = "Step time, step by step", "Hollow points are excluded as warm-up."
        figure = step_time_course(shown.every.table, shown.of_job.iloc[:0])
    figure.update_layout(dragmode="select", selectdirection="h")
    if not shown.is_all:
        frame(figure, shown.first, shown.last)
    return figure_card(
        "lateness",
        title,
        figure,
        about=about,
        above=[_choice(shown)],
        graph_id=ids.STEPS_GRAPH,
    )


def _choice(shown: _Shown) -> dmc.Group:
    """Two numbers, and a button for all steps: the same choice as a drag over the figure."""
    lowest, highest = int(shown.steps["step"].min()), int(shown.steps["step"].max())
    ends = (
        (ids.STEPS_FIRST, "Steps from", shown.first),
        (ids.STEPS_LAST, "to", shown.last),
    )
    inputs = [
        dmc.Group(
            [
                html.Label(label, htmlFor=name),
                dmc.NumberInput(
                    id=name,
                    value=value,
                    min=lowest,
                    max=highest,
                    allowDecimal=False,
                    debounce=True,
                    size="xs",
                    w=84,
                ),
            ],
            gap=6,
        )
        for name, label, value in ends
    ]
    chosen = units.counted(num_steady(shown.chosen(shown.of_job)), "steady step")
    source = steps_source(shown.every) if shown.is_all else chosen
    reset = dmc.Button(
        "All steps", id=ids.STEPS_ALL, size="compact-sm", variant="default", disabled=shown.is_all
    )
    said = dmc.Text([source, ". Drag over the figure to choose; all below follows."], size="sm")
    return dmc.Group([*inputs, reset, said], gap="sm", className="steps")


def _chosen_steps(runs: RunStore, shown: _Shown) -> list[Component]:
    """Costs, distribution and steps of the choice."""
    costs = _costs(runs, shown)
    segments = runs.run(shown.run_id).segments
    of_cell = rows_of_cell(segments, runs.table(shown.run_id, JOB_STEPS.name), shown.launch)
    distribution = figure_card(
        "step-distribution",
        f"Step time distribution{shown.suffix}",
        step_time_distribution(shown.chosen(of_cell)).update_layout(height=_HEIGHT),
        *([_cell_foot(runs, shown, of_cell)] if shown.is_all else []),
        about="Steady steps of all launches of this cell. Launches that differ show why one "
        "launch is not enough.",
    )
    card = cost_card(costs, shown.suffix)
    by_rank = costs.groupby("rank")["cost_ns"].sum()
    culprit = int(by_rank.index[int(by_rank.argmax())]) if by_rank.gt(0).any() else None
    bars = [
        figure_card(
            f"parts-over-steps-{place}",
            title,
            parts_over_steps(rows),
            about="Blocked is exposed communication. Grey is excluded, as warm-up.",
        )
        for place, (title, rows) in enumerate(
            steps_of_ranks(shown.chosen(shown.steps), culprit).items()
        )
    ]
    beside = [distribution] if card is None else [card, distribution]
    return [html.Div(beside, className="pair"), html.Div(bars, className="pair equal")]


def _cell_foot(runs: RunStore, shown: _Shown, of_cell: pd.DataFrame) -> html.Div:
    """The steady steps of all launches of a cell; the verdict's are on other pages, too."""
    analysis = runs.analysis(shown.run_id)
    cell = verdict_cell(analysis)
    strip = None if cell is None else run_strip(analysis, cell)
    launches = launches_in(of_cell)
    name = STEPS_FACT if strip is not None and strip.steps.launch in launches else ""
    number = html.Span(units.count(num_steady(of_cell)), **fact(name))
    source = f" steady steps, {units.counted(len(launches), 'launch')}"
    return html.Div([number, html.Span(source)], className="card-foot")


def _costs(runs: RunStore, shown: _Shown) -> pd.DataFrame:
    """RANK_COSTS of the choice."""
    if shown.is_all:
        return rows_of_launch(runs.table(shown.run_id, RANK_COSTS.name), shown.launch)
    analysis = runs.analysis(shown.run_id)
    made = ("costs by steps", shown.launch)
    costs = runs.made(shown.run_id, made, lambda: costs_by_steps(analysis, shown.launch))
    return costs(shown.first, shown.last)
