"""Cards of the Compare page: runs against each other and in order of time, toggles, loss.

Tested in ``tests/dashboards/test_compare.py`` and ``tests/dashboards/test_history.py``.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dash_mantine_components as dmc
import pandas as pd
from dash.development.base_component import Component

from hvdprof.api import Comparison, History, compare, histories_of_analyses
from hvdprof.dashboards.components.data_table import table_card
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.dashboards.components.section import figure_card, section
from hvdprof.dashboards.components.term_link import with_code
from hvdprof.dashboards.components.text_table import TextRows, text_card
from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.errors import HvdprofError
from hvdprof.figures.toggle_effects import learning_curves, toggle_speedups
from hvdprof.model.run import RunAnalysis, Verdict
from hvdprof.model.tables.waterfall_tables import TOGGLES
from hvdprof.report.answers.comparison_page import cause_sections, cell_sections, setting_texts
from hvdprof.report.sections.section import Section

_TOGGLE_COLUMNS = (
    *("model", "np", "engine", "toggle", "verdict", "speedup", "sent_bytes_ratio"),
    *("blocked_saved_ns", "own_work_added_ns", "loss_ratio", "reason"),
)

MOST_RUNS = 50
"""Runs that can be chosen; reading more would keep the page waiting."""

LATEST_RUNS = 12
"""Runs of a model that are read where none is chosen."""

LONGEST = 400
"""Characters of a value in the address."""

Series = Mapping[tuple[str, str], History]
"""Histories by model and name of the metric."""

_BETWEEN = "|"


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


def second_run_card(runs: RunStore, run_id: str, verdict: Verdict) -> dmc.Paper:
    """Asks for the run to compare with: the latest with the cell of the verdict, and any other."""
    cell = f"{verdict.model} at np={verdict.np}"
    others = [one for one in latest_of_model(runs, verdict.model) if one != run_id]
    links: list[Component] = []
    for one in others:
        entry = runs.entry(one)
        if entry is not None and verdict.np in entry.sizes:
            href = View("/compare", {"run": run_id, "with": one}).href
            began = entry.created_at[:16].replace("T", " ")
            links.append(dmc.ListItem([dmc.Anchor(one, href=href, inherit=True), f", {began} UTC"]))
    found = f"The latest runs of {cell}:" if links else f"No other run of {cell} is here."
    return section(
        f"Compare {run_id} with which run?",
        dmc.Text(found, size="sm"),
        dmc.List(links, size="sm") if links else None,
        view_select(
            "with",
            "With run",
            [one for one in runs.ids if one != run_id],
            None,
            placeholder="any other",
            w=300,
            maw="100%",
        ),
    )


_SIX = 760
_CAUSE_HEADS = ("cause", "cell", "first", "second", "difference (95 % CI)", "beyond chance")


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of two runs: its sentence, and the cards with what it rests on."""

    sentence: str
    cards: list[Component]


def outcome_of(
    first: tuple[str, RunAnalysis], second: tuple[str, RunAnalysis]
) -> RunOutcome | None:
    """The outcome of two runs with every metric, and what differs; None for one run twice.

    Args:
        first: Id and analysis of the run that the other is compared with.
        second: Those of the other run.
    """
    if first[0] == second[0]:
        return None
    try:
        comparison = compare(first[1], second[1])
    except HvdprofError as error:
        return RunOutcome(f"{first[0]} and {second[0]} are not compared: {error.message}", [])
    causes, settings = list(cause_sections(comparison)), setting_texts(comparison)
    cards: list[Component] = [_metrics(list(cell_sections(comparison)), comparison.cells)]
    if causes:
        cards.append(_causes(causes, comparison.causes))
    if settings:
        cards.append(
            section(
                "What differs",
                dmc.List([dmc.ListItem(text) for text in settings], size="sm"),
                about="Settings, versions, hosts and environment of both runs.",
            )
        )
    return RunOutcome(comparison.sentence, [*_notes(comparison, first[0], second[0]), *cards])


def _notes(comparison: Comparison, first: str, second: str) -> list[Component]:
    """How both were compared, its caveat, and the command that prints it."""
    caveat = [f"Caveat: {comparison.caveat}"] if comparison.caveat else []
    how = f"{second} (second) against {first} (first), with a margin of 2 %. In the terminal: "
    command = f"`hvdprof compare {shlex.quote(first)} {shlex.quote(second)}`"
    lines = [with_code(text) for text in (*caveat, *comparison.notes, how + command)]
    return [dmc.Stack([dmc.Text(line, size="sm", className="about") for line in lines], gap=2)]


def _metrics(sections: Sequence[Section], cells: pd.DataFrame) -> dmc.Paper:
    heads = ("cell", *(head.name for head in sections[0].heads))
    rows = [(cell.title, *row) for cell in sections for row in cell.rows]
    return text_card(
        "outcomes",
        "Every metric",
        TextRows(heads, rows, cells),
        left=2,
        narrowest=_SIX,
        about="The interval of each change, held against the margin. Regressed and improved are "
        "corrected for the number of cells.",
    )


def _causes(sections: Sequence[Section], causes: pd.DataFrame) -> dmc.Paper:
    # The last row is the sum, which no filter of the table may take for a cause.
    rows = [
        (name, cell.detail, *numbers, moved or "no")
        for cell in sections
        for name, *numbers, moved in cell.rows[:-1]
    ]
    return text_card(
        "moved",
        "What moved",
        TextRows(_CAUSE_HEADS, rows, causes),
        left=2,
        narrowest=_SIX,
        about="Parts of the step in both runs; all of them sum to its time. A rank that changed "
        "alone has a row with its cost. Beyond chance: 5 % over all parts of a cell (Holm).",
    )


def text_of_runs(names: Sequence[str]) -> str | None:
    """The runs as a value of the address; None where they are too many for one."""
    text = _BETWEEN.join(names)
    return None if len(text) > LONGEST or len(names) > MOST_RUNS else text


def runs_in(value: str, known: Sequence[str]) -> list[str]:
    """The runs that a value of the address names, which ``text_of_runs`` has made."""
    asked = dict.fromkeys(value.split(_BETWEEN))
    return [run_id for run_id in asked if run_id in known][:MOST_RUNS]


def latest_of_model(runs: RunStore, model: str | None) -> list[str]:
    """The latest run directories that hold a model, or any where that is None; newest first."""
    found = []
    for run_id in runs.ids:
        entry = runs.entry(run_id)
        if entry is None or entry.problem:
            continue
        if model is None or model in entry.models:
            found.append(run_id)
    return found[:LATEST_RUNS]


def series_of_runs(runs: RunStore, chosen: Sequence[str]) -> tuple[Series, list[str]]:
    """Every series of these runs, and a sentence for each run that cannot be read.

    The result is cached with the first run that can be read, until one of them changes.
    """
    state = tuple((run_id, _changed_ns(runs, run_id)) for run_id in chosen)
    for run_id in chosen:
        if _problem(runs, run_id) is None:
            return runs.made(run_id, ("series", state), lambda: _series(runs, chosen))
    return _series(runs, chosen)


def _series(runs: RunStore, chosen: Sequence[str]) -> tuple[Series, list[str]]:
    analyses, problems = [], []
    for run_id in chosen:
        if problem := _problem(runs, run_id):
            problems.append(f"{run_id} is left out: {problem}")
        else:
            analyses.append(runs.analysis(run_id))
    return histories_of_analyses(analyses), problems


def _problem(runs: RunStore, run_id: str) -> str | None:
    """Why a run is no point of a series; None where it is one."""
    try:
        runs.analysis(run_id)
    except HvdprofError as error:
        return error.message
    return None


def _changed_ns(runs: RunStore, run_id: str) -> int | None:
    """Last change of a run; None of one that is gone, which ``_problem`` reports."""
    try:
        return runs.changed_ns(run_id)
    except HvdprofError:
        return None
