"""Two configurations side by side, of one run or of two, and the effect of toggles."""

import math
from collections.abc import Sequence

import dash_mantine_components as dmc
import pandas as pd
from dash import Dash
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.api import waterfall_diff
from hvdprof.dashboards.components.diagnosis_cards import headline_bar
from hvdprof.dashboards.components.empty_state import Lack, empty_state, lack_card
from hvdprof.dashboards.components.run_outcome import (
    loss_cards,
    outcome_of,
    second_run_card,
    toggle_cards,
)
from hvdprof.dashboards.components.section import figure_card, section
from hvdprof.dashboards.components.text_table import TextRows, section_cards, text_card
from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.run_rows import (
    HEADS,
    Side,
    cell_text,
    cells_of,
    is_main_cell,
    marked,
    names_in,
    numbers_of,
    saved_sides,
    side_of,
)
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import CELL_KEYS, View
from hvdprof.errors import HvdprofError
from hvdprof.figures.time_differences import waterfall_difference
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name
from hvdprof.model.cell_key import has_no_toggles, setting_name
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waterfall_tables import ENGINE_DIFFS
from hvdprof.report.answers.comparison_page import no_cause_text

PATH = "/compare"
TITLE = "Compare"
KEYS: tuple[str, ...] = (*CELL_KEYS, "one", "with", "other")

_BETWEEN = "|"
_NOTHING = Lack(
    "Nothing to compare: a run directory with measured cells is required.",
    ("hvdprof bench --preset quick --fp16-allreduce --use-adasum",),
    about="This page then shows the difference of two configurations by cause, and the speedup of "
    "fp16 compression and Adasum.",
)
_THREE = 340
_SIX = 760
_DIFFERENCE_HEAD = ("cause", "first", "second", "difference (95 % CI)", "significant")


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of the run and of the run to compare with."""
    looked = runs.finished(str(view.run))
    if not isinstance(looked, RunAnalysis) or not cells_of(looked):
        return lack_card(_NOTHING)
    other_id = view.text("with")
    other, problem = None, None
    if other_id in runs.ids:
        other, problem = _other(runs, str(other_id))
    if other is None and not _has_two_settings(looked, view):
        asked = second_run_card(runs, str(view.run), looked.verdict)
        return dmc.Stack([*([problem] if problem is not None else []), asked], gap="md")
    if other is None:
        other, other_id = looked, str(view.run)
    first, second_cell = _defaults(looked, other, view)
    one_cell = _chosen(cells_of(looked), view.text("one"), first)
    other_cell = _chosen(cells_of(other), view.text("other"), second_cell)
    one = side_of(looked, str(view.run), one_cell)
    second = side_of(other, str(other_id), other_cell)
    outcome = outcome_of((str(view.run), looked), (str(other_id), other))
    return dmc.Stack(
        [
            headline_bar(_sentence(one, second) if outcome is None else outcome.sentence),
            _controls(runs, str(other_id), (looked, one_cell), (other, other_cell)),
            *([problem] if problem is not None else []),
            *([] if outcome is None else outcome.cards),
            *_difference(one, second, is_main=is_main_cell(looked, one_cell)),
            *_all_sides([(str(view.run), looked), (str(other_id), other)]),
            *section_cards(looked, ENGINE_DIFFS),
            *toggle_cards(looked),
            *loss_cards(looked, *names_in(one_cell)[:2]),
        ],
        gap="md",
    )


def lack(runs: RunStore, run_id: str) -> Lack | None:
    """A run without a measured cell."""
    looked = runs.finished(run_id)
    return None if isinstance(looked, RunAnalysis) and cells_of(looked) else _NOTHING


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _other(runs: RunStore, run_id: str) -> tuple[RunAnalysis | None, Component | None]:
    """The run to compare with; otherwise None and a card with the reason."""
    try:
        analysis = runs.analysis(run_id)
    except HvdprofError as error:
        return None, empty_state(f"{run_id} cannot be compared: {error.message}")
    if cells_of(analysis):
        return analysis, None
    return None, empty_state(f"{run_id} cannot be compared: it has no measured cell.")


def _has_two_settings(looked: RunAnalysis, view: View) -> bool:
    """Whether the address names two cells of one run, or its verdict's cell has two settings."""
    size = [looked.verdict.model, str(looked.verdict.np)]
    of_size = [cell for cell in cells_of(looked) if names_in(cell)[:2] == size]
    return len(of_size) > 1 or bool(view.text("one") and view.text("other"))


def _chosen(cells: dict[str, pd.Series], asked: str | None, default: str) -> str:
    return asked if asked in cells else default


def _defaults(analysis: RunAnalysis, other: RunAnalysis, view: View) -> tuple[str, str]:
    """The default cells to compare.

    With another run: the cell of the address in both, and where it names none, that of the
    verdict. Within one run: that cell without toggles and one with a toggle or under DDP,
    otherwise that cell alone.
    """
    cells = list(cells_of(analysis))
    verdict = analysis.verdict
    model, size = view.text("model") or verdict.model, str(view.np or verdict.np)
    plain = next(
        (
            key
            for key, row in cells_of(analysis).items()
            if names_in(key)[:3] == [model, size, verdict.engine] and has_no_toggles(row)
        ),
        "",
    )
    setting = view.text("toggles") or ""
    asked = [
        cell
        for cell in cells
        if names_in(cell)[:2] == [model, size] and setting_name(*names_in(cell)[2:]) == setting
    ]
    if asked and other is analysis and plain in cells and asked[0] != plain:
        return plain, asked[0]
    main = next(iter([*asked, *([plain] if plain in cells else [])]), cells[0])
    if other is not analysis:
        there = list(cells_of(other))
        return main, main if main in there else there[0]
    model, num_ranks, *_ = names_in(main)
    alike = [cell for cell in cells if names_in(cell)[0] == model and cell != main]
    with_toggle = [cell for cell in alike if names_in(cell)[1] == num_ranks]
    if with_toggle:
        return main, with_toggle[0]
    # Never one number of ranks against another: that is what the scaling efficiency says.
    return main, main


def _controls(
    runs: RunStore, other_id: str, one: tuple[RunAnalysis, str], other: tuple[RunAnalysis, str]
) -> dmc.Paper:
    options = [
        [{"value": cell, "label": cell_text(cell)} for cell in cells_of(analysis)]
        for analysis in (one[0], other[0])
    ]
    names = ("First", "With run", "Second")
    looks = [{"description": name, "w": 300, "maw": "100%"} for name in names]
    return section(
        "What to compare",
        dmc.Group(
            [
                view_select("one", "First", options[0], one[1], **looks[0]),
                view_select("with", "With run", runs.ids, other_id, **looks[1]),
                view_select("other", "Second", options[1], other[1], **looks[2]),
            ]
        ),
        about="The first configuration is of the run chosen above; the second can be of another.",
    )


def _sentence(one: Side, other: Side) -> str:
    """Both steps of one run side by side, and the largest difference that is significant."""
    if (one.run_id, one.label) == (other.run_id, other.label):
        return f"Choose another run or configuration to compare {one.label} of {one.run_id} with."
    times = [units.milliseconds(side.scaling["step_time_median_ns"]) for side in (one, other)]
    steps = f"{other.label}: {times[1]} per step (median), against {times[0]} of {one.label}."
    differences = waterfall_diff(one.waterfall, other.waterfall)
    certain = differences[differences["significant"].to_numpy(dtype=bool)]
    if differences.empty:
        return steps
    if certain.empty:
        numbers = (int(side.scaling["num_launches"]) for side in (one, other))
        return f"{steps} {no_cause_text(differences, *numbers)}"
    sizes = certain["difference_ns"].abs().to_numpy()
    row = certain.to_dict("records")[int(sizes.argmax())]
    change = units.interval_of_unit(row["difference_ns"], row["low_ns"], row["high_ns"], "ns")
    return f"{steps} Largest significant difference: {cause_name(row)}, {change}."


def _difference(one: Side, other: Side, *, is_main: bool) -> list[Component]:
    differences = waterfall_diff(one.waterfall, other.waterfall)
    rows = [
        (
            cause_name(row),
            units.milliseconds(row["one_ns"]),
            units.milliseconds(row["other_ns"]),
            units.interval_of_unit(row["difference_ns"], row["low_ns"], row["high_ns"], "ns"),
            _judged(row),
        )
        for row in differences.to_dict("records")
    ]
    first = marked(numbers_of(one)) if is_main else numbers_of(one)
    both = list(zip(HEADS, first, numbers_of(other), strict=True))
    cards = [
        text_card(
            "side-by-side",
            "Side by side",
            TextRows(("what", "first", "second"), both, saved_sides((one, other))),
            narrowest=_THREE,
            about="Throughput and scaling efficiency with their 95 % CI over launches.",
        ),
    ]
    if rows:
        cards += [
            figure_card(
                "difference",
                "Difference by cause, second minus first",
                waterfall_difference(differences),
                about="Difference of the two waterfalls, term by term, with its 95 % CI. Both are "
                "taken as independent; with a common baseline the interval is conservative. Pale "
                "bars are not significant: their interval contains 0.",
            ),
            text_card(
                "difference-numbers",
                "The same in numbers",
                TextRows(_DIFFERENCE_HEAD, rows, differences),
                about="Time per step that each cause adds to the step time of the cell's baseline.",
            ),
        ]
    return cards


def _all_sides(runs: Sequence[tuple[str, RunAnalysis]]) -> list[Component]:
    """Every configuration of both runs, if there are more than the two above."""
    sides = [
        side_of(analysis, run_id, cell)
        for run_id, analysis in dict(runs).items()
        for cell in cells_of(analysis)
    ]
    if len(sides) <= 2:
        return []
    return [
        text_card(
            "all-configurations",
            "Every configuration",
            TextRows(HEADS, [numbers_of(side) for side in sides], saved_sides(sides)),
            left=2,
            narrowest=_SIX,
            about="All measured configurations of the compared runs, with the same intervals.",
        )
    ]


def _judged(row: FrameRow) -> str:
    if math.isnan(row["low_ns"]) or math.isnan(row["high_ns"]):
        return "unknown"
    return "yes" if row["significant"] else "no"
