"""Two configurations side by side, of one run or of two, and the effect of toggles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import dash_mantine_components as dmc
import pandas as pd
from dash import Dash
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.api import waterfall_diff
from hvdprof.dashboards.components.empty_state import Lack, empty_state, lack_card
from hvdprof.dashboards.components.figure_card import figure_card
from hvdprof.dashboards.components.first_screen import headline_bar
from hvdprof.dashboards.components.run_outcome import loss_cards, outcome_of, toggle_cards
from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.components.text_table import TextRows, section_cards, text_card
from hvdprof.dashboards.components.view_control import view_select
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import CELL_KEYS, View
from hvdprof.errors import HvdprofError
from hvdprof.figures.time_differences import waterfall_difference
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name
from hvdprof.model.cell_key import CELL_KEY, has_no_toggles, setting_name, with_engine
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waterfall_tables import ENGINE_DIFFS

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
_HEADS = ("configuration", "run", "samples/s", "efficiency", "step, median", "blocked")
_DIFFERENCE_HEAD = ("cause", "first", "second", "difference (95 % CI)", "significant")


@dataclass(frozen=True, slots=True)
class Side:
    """One side: a cell of a run, its row of SCALING and its rows of WATERFALL."""

    run_id: str
    label: str
    scaling: pd.Series
    waterfall: pd.DataFrame


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of the run and of the run to compare with."""
    looked = runs.finished(str(view.run))
    if not isinstance(looked, RunAnalysis) or not _cells(looked):
        return lack_card(_NOTHING)
    other_id = view.text("with") if view.text("with") in runs.ids else str(view.run)
    other, problem = _other(runs, str(other_id))
    if other is None:
        other, other_id = looked, str(view.run)
    first, second_cell = _defaults(looked, other, view)
    one_cell = _chosen(_cells(looked), view.text("one"), first)
    other_cell = _chosen(_cells(other), view.text("other"), second_cell)
    one = _side(looked, str(view.run), one_cell)
    second = _side(other, str(other_id), other_cell)
    outcome = outcome_of((str(view.run), looked), (str(other_id), other))
    return dmc.Stack(
        [
            headline_bar(_sentence(one, second) if outcome is None else outcome.sentence),
            _controls(runs, str(other_id), (looked, one_cell), (other, other_cell)),
            *([problem] if problem is not None else []),
            *([] if outcome is None else outcome.cards),
            *_difference(one, second),
            *_all_sides([(str(view.run), looked), (str(other_id), other)]),
            *section_cards(looked, ENGINE_DIFFS),
            *toggle_cards(looked),
            *loss_cards(looked, *_names(one_cell)[:2]),
        ],
        gap="md",
    )


def lack(runs: RunStore, run_id: str) -> Lack | None:
    """A run without a measured cell."""
    looked = runs.finished(run_id)
    return None if isinstance(looked, RunAnalysis) and _cells(looked) else _NOTHING


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def _other(runs: RunStore, run_id: str) -> tuple[RunAnalysis | None, Component | None]:
    """The run to compare with; otherwise None and a card with the reason."""
    try:
        analysis = runs.analysis(run_id)
    except HvdprofError as error:
        return None, empty_state(f"{run_id} cannot be compared: {error.message}")
    if _cells(analysis):
        return analysis, None
    return None, empty_state(f"{run_id} cannot be compared: it has no measured cell.")


def _cells(analysis: RunAnalysis) -> dict[str, pd.Series]:
    """The measured cells of Horovod and DDP, by their text in the address."""
    rows = analysis.scaling[with_engine(analysis.scaling)]
    return {_BETWEEN.join(str(row[key]) for key in CELL_KEY): row for _, row in rows.iterrows()}


def _chosen(cells: dict[str, pd.Series], asked: str | None, default: str) -> str:
    return asked if asked in cells else default


def _defaults(analysis: RunAnalysis, other: RunAnalysis, view: View) -> tuple[str, str]:
    """The default cells to compare.

    With another run: the cell of the address in both, and where it names none, that of the
    verdict. Within one run: that cell without toggles and one with a toggle or under DDP,
    otherwise the same model on the fewest ranks.
    """
    cells = list(_cells(analysis))
    verdict = analysis.verdict
    model, size = view.text("model") or verdict.model, str(view.np or verdict.np)
    plain = next(
        (
            key
            for key, row in _cells(analysis).items()
            if _names(key)[:3] == [model, size, verdict.engine] and has_no_toggles(row)
        ),
        "",
    )
    setting = view.text("toggles") or ""
    asked = [
        cell
        for cell in cells
        if _names(cell)[:2] == [model, size] and setting_name(*_names(cell)[2:]) == setting
    ]
    if asked and other is analysis and plain in cells and asked[0] != plain:
        return plain, asked[0]
    main = next(iter([*asked, *([plain] if plain in cells else [])]), cells[0])
    if other is not analysis:
        there = list(_cells(other))
        return main, main if main in there else there[0]
    model, num_ranks, *_ = _names(main)
    alike = [cell for cell in cells if _names(cell)[0] == model and cell != main]
    with_toggle = [cell for cell in alike if _names(cell)[1] == num_ranks]
    if with_toggle:
        return main, with_toggle[0]
    return (alike or cells)[0], main


def _names(cell: str) -> list[str]:
    """The parts of a cell in the order of ``CELL_KEY``; a script name can hold any character."""
    return cell.rsplit(_BETWEEN, len(CELL_KEY) - 1)


def _label(cell: str) -> str:
    model, num_ranks, *setting = _names(cell)
    return f"{model} np={num_ranks}, {setting_name(*setting)}"


def _side(analysis: RunAnalysis, run_id: str, cell: str) -> Side:
    row = _cells(analysis)[cell]
    waterfall = analysis.table("waterfall")
    is_own = pd.Series(True, index=waterfall.index)
    for key in CELL_KEY:
        is_own &= waterfall[key] == row[key]
    return Side(run_id, _label(cell), row, waterfall[is_own.to_numpy(dtype=bool)])


def _controls(
    runs: RunStore, other_id: str, one: tuple[RunAnalysis, str], other: tuple[RunAnalysis, str]
) -> dmc.Paper:
    options = [
        [{"value": cell, "label": _label(cell)} for cell in _cells(analysis)]
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
        return f"{one.run_id} has one configuration: choose another run to compare it with."
    times = [units.milliseconds(side.scaling["step_time_median_ns"]) for side in (one, other)]
    steps = f"{other.label}: {times[1]} per step (median), against {times[0]} of {one.label}."
    differences = waterfall_diff(one.waterfall, other.waterfall)
    certain = differences[differences["significant"].to_numpy(dtype=bool)]
    if differences.empty:
        return steps
    if certain.empty:
        return f"{steps} No cause differs significantly."
    sizes = certain["difference_ns"].abs().to_numpy()
    row = certain.to_dict("records")[int(sizes.argmax())]
    change = units.interval_of_unit(row["difference_ns"], row["low_ns"], row["high_ns"], "ns")
    return f"{steps} Largest significant difference: {cause_name(row)}, {change}."


def _difference(one: Side, other: Side) -> list[Component]:
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
    both = list(zip(_HEADS, _numbers(one), _numbers(other), strict=True))
    cards = [
        text_card(
            "side-by-side",
            "Side by side",
            TextRows(("what", "first", "second"), both, _saved((one, other))),
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
        _side(analysis, run_id, cell)
        for run_id, analysis in dict(runs).items()
        for cell in _cells(analysis)
    ]
    if len(sides) <= 2:
        return []
    return [
        text_card(
            "all-configurations",
            "Every configuration",
            TextRows(_HEADS, [_numbers(side) for side in sides], _saved(sides)),
            left=2,
            narrowest=_SIX,
            about="All measured configurations of the compared runs, with the same intervals.",
        )
    ]


def _saved(sides: Sequence[Side]) -> pd.DataFrame:
    """The rows of SCALING of these sides, with the run of each."""
    rows = pd.DataFrame([side.scaling for side in sides]).reset_index(drop=True)
    rows.insert(0, "run", [side.run_id for side in sides])
    return rows


def _numbers(side: Side) -> tuple[str, ...]:
    row = side.scaling
    return (
        side.label,
        side.run_id,
        units.rate_interval(
            row["samples_per_s"], row["samples_per_s_low"], row["samples_per_s_high"]
        ),
        units.percent_interval(row["efficiency"], row["efficiency_low"], row["efficiency_high"]),
        units.milliseconds(row["step_time_median_ns"]),
        f"{units.milliseconds(row['blocked_ns'])}, {units.percent(row['blocked_share'])}",
    )


def _judged(row: FrameRow) -> str:
    if math.isnan(row["low_ns"]) or math.isnan(row["high_ns"]):
        return "unknown"
    return "yes" if row["significant"] else "no"
