"""Two runs against each other, and all runs in order of time: cards of the Compare page.

Tested in ``tests/dashboards/test_compare.py``.
"""

from collections.abc import Sequence

import dash_mantine_components as dmc
import pandas as pd
from dash.development.base_component import Component

from hvdprof.api import History, compare_analyses, history_of_analyses
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.dashboards.components.figure_card import figure_card
from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.components.text_table import TextRows, text_card
from hvdprof.dashboards.run_store import RunStore
from hvdprof.errors import HvdprofError
from hvdprof.figures.history_figure import history_figure
from hvdprof.model.run import RunAnalysis
from hvdprof.report.comparison.comparison_texts import ComparisonTexts, comparison_texts

MOST_RUNS = 50
"""Runs in the series; reading more would keep the page waiting."""

_FEWEST_RUNS = 3
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


def history_cards(runs: RunStore, run_id: str) -> list[Component]:
    """The step time over all runs, where there are enough of the same cell.

    Args:
        runs: The runs of the dashboard.
        run_id: The run shown; the series is computed once for it.
    """
    chosen = tuple(runs.ids[:MOST_RUNS])
    if len(chosen) < _FEWEST_RUNS:
        return []
    found = _stored_history(runs, run_id, chosen)
    return [] if found is None else [_history_card("All runs in order of time", found)]


def chosen_history(runs: RunStore, chosen: Sequence[str]) -> dmc.Paper:
    """The step time over some runs, or why there is no such series.

    Args:
        runs: The runs of the dashboard.
        chosen: Ids of the runs, at most ``MOST_RUNS``.
    """
    found = _stored_history(runs, chosen[0], tuple(chosen)) if chosen else None
    if found is None:
        return empty_state(
            "No history of these runs: no cell was measured in two of them.",
            "hvdprof history runs/",
            about="A cell is a model with its number of ranks, engine and toggles.",
        )
    return _history_card("History of these runs", found)


def _stored_history(runs: RunStore, run_id: str, chosen: tuple[str, ...]) -> History | None:
    return runs.made(run_id, ("history", chosen), lambda: _history(runs, chosen))


def _history_card(title: str, found: History) -> dmc.Paper:
    return figure_card(
        "history",
        title,
        history_figure(found),
        about=f"{found.sentence} hvdprof history follows other metrics.",
    )


def _history(runs: RunStore, chosen: Sequence[str]) -> History | None:
    analyses = []
    for run_id in chosen:
        try:
            analyses.append(runs.analysis(run_id))
        except HvdprofError:
            # A standalone file or a run that cannot be read is no point of the series; the list of
            # runs says so.
            continue
    try:
        return history_of_analyses(analyses)
    except HvdprofError:
        # No cell is in two of the runs: there is no series to show.
        return None


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
