"""Two runs against each other: cards of the Compare page.

Tested in ``tests/dashboards/test_compare.py``.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import dash_mantine_components as dmc
import pandas as pd
from dash.development.base_component import Component

from hvdprof.api import Comparison, compare
from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.components.term_link import with_code
from hvdprof.dashboards.components.text_table import TextRows, text_card
from hvdprof.errors import HvdprofError
from hvdprof.model.run import RunAnalysis
from hvdprof.report.comparison.comparison_page import (
    cause_sections,
    cell_sections,
    setting_texts,
)
from hvdprof.report.sections.section import Section

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
