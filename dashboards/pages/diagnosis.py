"""The first page: scaling efficiency, largest losses, findings, and data quality."""

import shlex
from collections.abc import Sequence

import dash_mantine_components as dmc
import numpy as np
from dash import Dash, html
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.cell_tables import cell_table
from hvdprof.dashboards.components.empty_state import empty_state, unread_files
from hvdprof.dashboards.components.figure_card import figure_card, low_figure_card
from hvdprof.dashboards.components.finding_cards import finding_list, folded_findings, is_of_cell
from hvdprof.dashboards.components.finding_links import finding_links
from hvdprof.dashboards.components.first_screen import (
    headline_bar,
    open_points_card,
    phase_strip,
    progress_card,
    tile_row,
)
from hvdprof.dashboards.components.line_card import line_card
from hvdprof.dashboards.components.section import fact_table, section
from hvdprof.dashboards.components.term_link import with_code
from hvdprof.dashboards.components.text_table import section_cards
from hvdprof.dashboards.components.view_control import cell_selects, chosen_cell
from hvdprof.dashboards.pages import never_empty
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import CELL_KEYS, View
from hvdprof.figures.catalogue import FIGURES, figure_kind
from hvdprof.figures.scaling_curve import scaling_curve
from hvdprof.figures.waterfall_figure import WaterfallCell, waterfall_cells, waterfall_figure
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.file_page import FilePage
from hvdprof.model.run import RunAnalysis
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.model.tables.session_tables import SESSIONS
from hvdprof.report.file_texts import file_texts
from hvdprof.report.screen.attached_pages import (
    attached_pages,
    has_comparison,
    is_of_files_alone,
)
from hvdprof.report.screen.file_tiles import file_tiles
from hvdprof.report.screen.open_points import open_points
from hvdprof.report.screen.progress import progress_of
from hvdprof.report.screen.rank_phases import rank_phases
from hvdprof.report.screen.tiles import tiles, verdict_cell
from hvdprof.report.terminal.report_page import Page, shape_page
from hvdprof.report.terminal.run_facts import run_facts

PATH = "/"
TITLE = "Diagnosis"
KEYS: tuple[str, ...] = CELL_KEYS
lack = never_empty

_SCALING, _WATERFALL, _EVERY = "scaling", "waterfall", "all"
_LOW = 220
"""Pixels of a figure of the first screen."""

_QUALITY = "Data quality"
_FINDINGS_ABOUT = (
    "Problems in order of their cost. The potential gain is computed by replaying the measured "
    "steps without the problem."
)


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of a run or a standalone file."""
    looked = runs.finished(str(view.run))
    if isinstance(looked, FilesAnalysis):
        return found_content(looked)
    return content(looked, view)


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def content(analysis: RunAnalysis, view: View) -> dmc.Stack:
    """The page of a run directory: what matters first, everything else below it."""
    page = shape_page(analysis)
    cells = waterfall_cells(analysis)
    verdict = analysis.verdict
    chosen = chosen_cell(cells, view, verdict.model, verdict.np)
    row = _scaling_row(analysis, chosen)
    progress = progress_of(analysis.run.manifest)
    of_files = [part for file in attached_pages(analysis) for part in _file(file)]
    end = [_data_quality(page), _not_measured(page)]
    first = headline_bar(analysis.verdict.headline, order=1)
    parts: list[Component | None]
    if is_of_files_alone(analysis):
        found = [] if analysis.findings.empty else [_findings(analysis, view, row)]
        parts = [first, *of_files, *found, *end]
    else:
        parts = [
            None if progress is None else progress_card(progress),
            None if chosen is None else cell_selects(cells, chosen),
            first,
            tile_row([tile for tile in tiles(analysis, row) if tile.value != units.MISSING]),
            _figures(analysis, chosen),
            _findings(analysis, view, row),
            line_card(analysis),
            *of_files,
            *end,
            _tables(page, analysis),
            *section_cards(analysis, SESSIONS),
            *_further(analysis, chosen),
        ]
    parts.append(_facts(analysis, page, view.run))
    return dmc.Stack([part for part in parts if part is not None], gap="xs")


def _scaling_row(analysis: RunAnalysis, cell: WaterfallCell | None) -> FrameRow | None:
    """The row of SCALING of a cell; that of the verdict where there is none."""
    for row in analysis.scaling.to_dict("records"):
        if cell is not None and all(row[key] == getattr(cell, key) for key in CELL_KEY):
            return row
    return verdict_cell(analysis)


def found_content(found: FilesAnalysis) -> dmc.Stack:
    """The page of standalone files: tiles, verdict and facts of each, and open questions."""
    said = [file for file in found.files if file.facts or file.verdict or file.unanswered]
    parts: list[Component] = []
    for verdict in found.verdicts:
        parts.append(headline_bar(verdict.sentence, order=1))
        parts += [dmc.Text(f"Caveat: {verdict.caveat}", size="sm")] if verdict.caveat else []
    parts += [part for file in said for part in _file(file)]
    parts += unread_files([file for file in found.files if file not in said])
    return dmc.Stack(parts, gap="md")


def _file(file: FilePage) -> list[Component]:
    parts: list[Component] = []
    if file.verdict:
        parts.append(headline_bar(file.verdict, order=1))
    if shown := file_tiles(file):
        parts.append(tile_row(shown))
    if file.caveat:
        parts.append(dmc.Text(f"Caveat: {file.caveat}", size="sm"))
    texts = file_texts(file)
    facts = [(label, value) for label, value in texts.facts if value != units.MISSING]
    parts.append(section(texts.file, fact_table(facts) if facts else None, about=texts.about))
    if texts.unanswered:
        open_ = [empty_state(question, command) for question, command in texts.unanswered]
        number = units.counted(len(open_), "question")
        folded = html.Details(
            [
                html.Summary(f"{number} that this file does not answer, with the commands that do"),
                dmc.Stack(open_, gap="xs", mt="xs"),
            ],
            className="finding",
        )
        parts.append(folded)
    return parts


def _figures(analysis: RunAnalysis, cell: WaterfallCell | None) -> html.Div | None:
    """Scaling curve and waterfall side by side, low enough for the first screen."""
    if not has_comparison(analysis):
        return None
    scaling, waterfall = figure_kind(_SCALING), figure_kind(_WATERFALL)
    rows = analysis.scaling
    if cell is not None:
        rows = rows[(rows["model"] == cell.model).to_numpy(dtype=bool)]
    low = waterfall_figure(analysis, cell, compact=True)
    return html.Div(
        [
            low_figure_card(scaling.name, scaling.title, scaling_curve(rows, _LOW), scaling.about),
            low_figure_card(waterfall.name, waterfall.title, low, waterfall.about),
        ],
        className="pair",
    )


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


def _findings(analysis: RunAnalysis, view: View, row: FrameRow | None) -> html.Div:
    """The findings, and beside them the ranks by phase."""
    points = open_points(analysis)
    cards: list[Component] = [] if points is None else [open_points_card(points)]

    def links(finding: FrameRow) -> Sequence[Component]:
        return finding_links(analysis, view, finding)

    findings = analysis.findings
    is_own = np.ones(len(findings), dtype=bool) if row is None else is_of_cell(findings, row)
    cards += finding_list(findings[is_own], links)
    if not cards:
        cards = [dmc.Text("No finding.", size="sm")]
    if len(others := findings[~is_own]):
        number = units.counted(len(others), "finding")
        about = f"{number} on other models or numbers of ranks"
        cards.append(folded_findings(about, others, links))
    strip = None if row is None else rank_phases(analysis, row)
    beside = [] if strip is None else [phase_strip(strip)]
    return html.Div(
        [section("Findings", *cards, hint=_FINDINGS_ABOUT), *beside],
        className="findings-row" if beside else "",
    )


def _tables(page: Page, analysis: RunAnalysis) -> dmc.Paper:
    return section("All numbers", *[cell_table(table, analysis.scaling) for table in page.tables])


def _not_measured(page: Page) -> dmc.Paper | None:
    failed = [
        dmc.Stack(
            [
                dmc.Text(cell.text),
                *([_code("\n".join(cell.lines))] if cell.lines else []),
            ],
            gap=4,
        )
        for cell in page.failed
    ]
    parts: list[Component] = [section("Failed", *failed)] if failed else []
    if page.skipped:
        texts = [f"{group.reason} ({'; '.join(group.cells)})" for group in page.skipped]
        parts.append(dmc.Text([html.B("Skipped: "), "; ".join(texts)], className="about"))
    return dmc.Stack(parts, gap="md") if parts else None


def _data_quality(page: Page) -> dmc.Alert | None:
    """What limits the numbers: the caveat of the verdict, then the warnings."""
    notes = [*([page.caveat] if page.caveat else []), *page.warnings]
    if not notes and not page.stop:
        return None
    parts: list[Component] = []
    if page.stop:
        parts.append(dmc.Text(page.stop, size="sm"))
    if notes:
        parts.append(dmc.List([dmc.ListItem(with_code(note)) for note in notes], size="sm"))
    return dmc.Alert(
        dmc.Stack(parts, gap=4),
        title=_QUALITY,
        color="yellow" if notes else "blue",
        variant="light",
        className="caution",
    )


def _facts(analysis: RunAnalysis, page: Page, run_id: str | None) -> dmc.Paper:
    manifest = analysis.run.manifest
    lines: list[Component] = [
        fact_table(run_facts(analysis)),
        *([_code(shlex.join(manifest.command))] if manifest.command else []),
    ]
    exports = [f"{line}  # {use}" for line, use in page.next_commands if " export " in line]
    if exports:
        lines += [
            dmc.Text("In a terminal:", size="sm"),
            _code("\n".join(exports)),
        ]
    return section(f"About the run {run_id or manifest.name}", *lines)


def _code(text: str) -> dmc.Code:
    return dmc.Code(text, block=True, className="keep-lines")
