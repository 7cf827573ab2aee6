"""What stands folded below the diagnosis: notes, scaling tables and curve, numbers, facts.

Tested in ``tests/dashboards/test_diagnosis.py``.
"""

import shlex

import dash_mantine_components as dmc
import pandas as pd
from dash import html
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.diagnosis_cards import line_card, tile_row
from hvdprof.dashboards.components.finding_cards import finding_list
from hvdprof.dashboards.components.section import (
    Saves,
    fact,
    fact_table,
    figure_card,
    folded,
    low_figure_card,
    save_button,
    section,
)
from hvdprof.dashboards.components.term_link import with_code
from hvdprof.dashboards.components.text_table import saveable, section_cards, text_table
from hvdprof.dashboards.view import View
from hvdprof.figures.catalogue import FIGURES, figure_kind
from hvdprof.figures.scaling_curve import scaling_curve
from hvdprof.figures.waterfall_figure import WaterfallCell, waterfall_figure
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.model.tables.window_tables import SESSIONS
from hvdprof.report.screen.file_tiles import has_comparison
from hvdprof.report.screen.tiles import STEP_TIME_FACT, tiles
from hvdprof.report.sections.forecast_texts import verdict_of
from hvdprof.report.terminal.report_page import CELL_HEADS, CellRow, ModelTable, Page
from hvdprof.report.terminal.run_facts import run_facts

_SCALING, _WATERFALL, _EVERY = "scaling", "waterfall", "all"
_LOW = 220
"""Pixels of a low figure."""

_MANY_SIZES = 3
"""Numbers of ranks from which on the scaling curve is open."""

OWN_RULES = ("timeline-slows", "timeline-tail-lost", "no-rank-evidence", "clocks-contradict")
"""Findings on the recording, which are no problems of the job."""

_QUALITY = "Data quality"

_LEFT = 2
_NARROWEST = 900


def folds_of_run(
    analysis: RunAnalysis,
    page: Page,
    chosen: WaterfallCell | None,
    row: FrameRow | None,
    run_id: str,
) -> html.Div:
    """Lines of code, notes on quality, scaling curve, numbers, forecast, and facts on the run."""
    scaling = figure_kind(_SCALING)
    rows = analysis.scaling
    if chosen is not None:
        rows = rows[(rows["model"] == chosen.model).to_numpy(dtype=bool)]
    folds: list[Component] = []
    if (lines := line_card(analysis)) is not None:
        folds.append(folded("Lines of code", lines, look="fold"))
    quality, number = data_quality(page, analysis), _num_notes(page, analysis)
    if quality is not None:
        folds.append(folded(f"{units.counted(number, 'note')} on quality", quality, look="fold"))
    sizes = int(rows["np"].nunique())
    if sizes > 1:
        curve = low_figure_card(
            scaling.name, scaling.title, scaling_curve(rows, _LOW), scaling.about
        )
        folds.append(folded("Scaling curve", curve, is_open=sizes >= _MANY_SIZES, look="fold"))
    every = tiles(analysis, row)
    known = [tile for tile in every if tile.value != units.MISSING]
    sections = section_cards(analysis, SESSIONS, RANK_MACHINE)
    cells = [cell_table(table, analysis.scaling, row) for table in page.tables]
    numbers = [tile_row(known), section("All numbers", *cells), *sections]
    folds.append(folded("All numbers", *numbers, *_further(analysis, chosen), look="fold"))
    for stored in analysis.run.forecasts[-1:]:
        link = dmc.Anchor("Forecast", href=View("/forecast", {"run": run_id}).href, size="sm")
        folds.append(
            folded("Forecast", dmc.Text(verdict_of(stored.forecast), size="sm"), link, look="fold")
        )
    folds.append(folded("About the run", run_facts_card(analysis, page, run_id), look="fold"))
    return html.Div(folds, className="folds")


def _further(analysis: RunAnalysis, cell: WaterfallCell | None) -> list[Component]:
    """The waterfall with every cause and its interval, and the parts of the lost time."""
    if not has_comparison(analysis):
        return []
    waterfall = figure_kind(_WATERFALL)
    return [
        figure_card(
            f"{waterfall.name}-{_EVERY}",
            "Every cause with its interval",
            waterfall_figure(analysis, cell),
            about=waterfall.about,
        ),
        *[
            figure_card(kind.name, kind.title, kind.draw(analysis), about=kind.about)
            for kind in FIGURES
            if kind.name not in (_SCALING, _WATERFALL)
        ],
    ]


def failed_cells(page: Page) -> dmc.Paper | None:
    """What failed, with the printed lines that explain it; None without any."""
    failed = [
        dmc.Stack(
            [dmc.Text(cell.text), *([_code("\n".join(cell.lines))] if cell.lines else [])], gap=4
        )
        for cell in page.failed
    ]
    parts: list[Component] = [section("Failed", *failed)] if failed else []
    return dmc.Stack(parts, gap="md") if parts else None


def _num_notes(page: Page, analysis: RunAnalysis) -> int:
    own = analysis.findings["id"].isin(OWN_RULES)
    return len(_notes(page)) + int(own.sum()) + bool(page.stop)


def _notes(page: Page) -> list[str]:
    return [*([page.caveat] if page.caveat else []), *page.warnings]


def data_quality(page: Page, analysis: RunAnalysis) -> dmc.Alert | None:
    """What limits the numbers: the caveat of the verdict, the warnings, and hvdprof's own costs."""
    notes = _notes(page)
    own = analysis.findings[analysis.findings["id"].isin(OWN_RULES).to_numpy(dtype=bool)]
    if not notes and not page.stop and own.empty:
        return None
    parts: list[Component] = []
    if page.stop:
        parts.append(dmc.Text(page.stop, size="sm"))
    if notes:
        parts.append(dmc.List([dmc.ListItem(with_code(note)) for note in notes], size="sm"))
    parts += finding_list(own, lambda _finding: ())
    return dmc.Alert(
        dmc.Stack(parts, gap=4),
        title=_QUALITY,
        color="yellow" if notes else "blue",
        variant="light",
        className="caution",
    )


def run_facts_card(analysis: RunAnalysis, page: Page, run_id: str | None) -> dmc.Paper:
    """How and where the run was measured, its command, and what was skipped."""
    manifest = analysis.run.manifest
    lines: list[Component] = [
        fact_table(run_facts(analysis)),
        *([_code(shlex.join(manifest.command))] if manifest.command else []),
    ]
    if page.skipped:
        texts = [f"{group.reason} ({'; '.join(group.cells)})" for group in page.skipped]
        lines.append(dmc.Text([html.B("Skipped: "), "; ".join(texts)], className="about"))
    exports = [f"{line}  # {use}" for line, use in page.next_commands if " export " in line]
    if exports:
        lines += [dmc.Text("In a terminal:", size="sm"), _code("\n".join(exports))]
    return section(f"About the run {run_id or manifest.name}", *lines)


def _code(text: str) -> dmc.Code:
    return dmc.Code(text, block=True, className="keep-lines")


def cell_table(table: ModelTable, scaling: pd.DataFrame, main: FrameRow | None) -> dmc.Stack:
    """One model's cells; on a narrow screen the table scrolls sideways, never the page.

    Args:
        table: The cells as texts.
        scaling: SCALING, whose rows of that model are saved.
        main: The row of SCALING whose numbers other pages show, too.
    """
    key = () if main is None else tuple(str(main[name]) for name in CELL_KEY)
    name = f"scaling-{table.model}"
    caption = [dmc.Text(table.model, span=True, fw=700), f"  {table.caption}"]
    cells = text_table(
        CELL_HEADS,
        [_cells(row, STEP_TIME_FACT if row.key == key else "") for row in table.rows],
        left=_LEFT,
        narrowest=_NARROWEST,
        row_classes=["oversubscribed" if row.oversubscribed else "" for row in table.rows],
    )
    return dmc.Stack(
        [
            dmc.Group(
                [
                    # A basis of 0 keeps the width of the button where the caption wraps.
                    dmc.Text(caption, size="sm", className="grow", style={"flexBasis": 0}),
                    save_button(Saves.CSV, name, f"the numbers of {table.model}"),
                ],
                gap="xs",
                wrap="nowrap",
            ),
            saveable(name, cells, scaling[(scaling["model"] == table.model).to_numpy(dtype=bool)]),
        ],
        gap=4,
    )


def _cells(row: CellRow, step_fact: str) -> tuple[Component | str, ...]:
    return (
        row.np,
        row.setting,
        row.samples_per_s,
        html.Span(row.step_median, **fact(step_fact)),
        row.step_p95,
        row.efficiency,
        row.blocked,
        row.blocked_share,
        row.trace_overhead,
        row.final_loss,
    )
