"""Two runs against each other: cards of the Compare page.

Tested in ``tests/dashboards/test_compare.py``.
"""

import dash_mantine_components as dmc
import pandas as pd
from dash.development.base_component import Component

from hvdprof.api import compare_analyses
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.components.text_table import TextRows, text_card
from hvdprof.errors import HvdprofError
from hvdprof.model.run import RunAnalysis
from hvdprof.report.comparison.comparison_texts import ComparisonTexts, comparison_texts

_SIX = 760
_HEADS = ("cell", "metric", "first", "second", "outcome")
_CAUSE_HEADS = ("cause", "cell", "first", "second", "difference (95 % CI)", "beyond chance")


def outcome_cards(
    first: tuple[str, RunAnalysis], second: tuple[str, RunAnalysis]
) -> list[Component]:
    """The outcome of two runs with every metric, and what differs; nothing for one run twice.

    Args:
        first: Id and analysis of the run that the other is compared with.
        second: Those of the other run.
    """
    if first[0] == second[0]:
        return []
    try:
        comparison = compare_analyses(first[1], second[1])
    except HvdprofError as error:
        return [empty_state(f"{first[0]} and {second[0]} are not compared: {error.message}")]
    texts = comparison_texts(comparison)
    cards: list[Component] = [
        _verdict(texts, first[0], second[0]),
        _metrics(texts, comparison.cells),
    ]
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
    return cards


def _verdict(texts: ComparisonTexts, first: str, second: str) -> dmc.Paper:
    parts = [dmc.Text(texts.sentence, fw=600)]
    if texts.caveat:
        parts.append(dmc.Text(f"Caveat: {texts.caveat}", size="sm", c="dimmed"))
    parts += [dmc.Text(note, size="sm", c="dimmed") for note in texts.notes]
    return section(
        "Second run against the first",
        dmc.Stack(parts, gap=4),
        about=f"{second} against {first}, with a margin of 2 %. In the terminal: "
        f"hvdprof compare {first} {second}",
    )


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
        narrowest=_SIX,
        about="Parts of the step in both runs; all of them sum to its time. A rank that changed "
        "alone has a row with its cost. Beyond chance: 5 % over all parts of a cell (Holm).",
    )
