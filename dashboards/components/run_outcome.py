"""Two runs against each other: cards of the Compare page.

Tested in ``tests/dashboards/test_compare.py``.
"""

import shlex
from dataclasses import dataclass

import dash_mantine_components as dmc
import pandas as pd
from dash.development.base_component import Component

from hvdprof.api import compare_analyses
from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.components.term_link import with_code
from hvdprof.dashboards.components.text_table import TextRows, text_card
from hvdprof.errors import HvdprofError
from hvdprof.model.run import RunAnalysis
from hvdprof.report.comparison.comparison_texts import ComparisonTexts, comparison_texts

_SIX = 760
_HEADS = ("cell", "metric", "first", "second", "outcome")
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
        comparison = compare_analyses(first[1], second[1])
    except HvdprofError as error:
        return RunOutcome(f"{first[0]} and {second[0]} are not compared: {error.message}", [])
    texts = comparison_texts(comparison)
    cards: list[Component] = [_metrics(texts, comparison.cells)]
    if texts.causes:
        cards.append(_causes(texts, comparison.causes))
    if texts.settings:
        cards.append(
            section(
                "What differs",
                dmc.List([dmc.ListItem(text) for text in texts.settings], size="sm"),
                about="Settings, versions, hosts and environment of both runs.",
            )
        )
    return RunOutcome(texts.sentence, [*_notes(texts, first[0], second[0]), *cards])


def _notes(texts: ComparisonTexts, first: str, second: str) -> list[Component]:
    """How both were compared, its caveat, and the command that prints it."""
    caveat = [f"Caveat: {texts.caveat}"] if texts.caveat else []
    how = f"{second} (second) against {first} (first), with a margin of 2 %. In the terminal: "
    command = f"`hvdprof compare {shlex.quote(first)} {shlex.quote(second)}`"
    lines = [with_code(text) for text in (*caveat, *texts.notes, how + command)]
    return [dmc.Stack([dmc.Text(line, size="sm", className="about") for line in lines], gap=2)]


def _metrics(texts: ComparisonTexts, cells: pd.DataFrame) -> dmc.Paper:
    heads = (*_HEADS[:4], texts.change_head, _HEADS[4])
    rows = [
        (cell.name, line.title, line.first, line.second, line.change, line.outcome)
        for cell in texts.cells
        for line in cell.lines
    ]
    return text_card(
        "outcomes",
        "Every metric",
        TextRows(heads, rows, cells),
        left=2,
        narrowest=_SIX,
        about="The interval of each change, held against the margin. Regressed and improved are "
        "corrected for the number of cells.",
    )


def _causes(texts: ComparisonTexts, causes: pd.DataFrame) -> dmc.Paper:
    rows = [
        (
            line.name,
            cell.name,
            line.first,
            line.second,
            line.difference,
            "yes" if line.moved else "no",
        )
        for cell in texts.causes
        for line in cell.lines
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
