"""The first page: what is wrong, where, what it costs and what to do; all numbers folded."""

from collections.abc import Sequence

import dash_mantine_components as dmc
import numpy as np
from dash import Dash, html
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.diagnosis_cards import (
    headline_bar,
    open_points_card,
    progress_card,
    rank_bars_card,
    strip_card,
    tile_row,
)
from hvdprof.dashboards.components.diagnosis_cards import (
    verdict_band as band_card,
)
from hvdprof.dashboards.components.empty_state import empty_state, unread_files
from hvdprof.dashboards.components.finding_cards import (
    finding_links,
    finding_list,
    folded_findings,
    is_of_cell,
)
from hvdprof.dashboards.components.run_folds import (
    OWN_RULES,
    data_quality,
    failed_cells,
    folds_of_run,
    run_facts_card,
)
from hvdprof.dashboards.components.section import fact, fact_table, folded, low_figure_card, section
from hvdprof.dashboards.components.view_control import cell_selects, chosen_cell
from hvdprof.dashboards.pages import never_empty
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import CELL_KEYS, View
from hvdprof.figures.catalogue import figure_kind
from hvdprof.figures.typical_step import run_strip
from hvdprof.figures.waterfall_figure import WaterfallCell, waterfall_cells, waterfall_figure
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import CELL_KEY, place_name
from hvdprof.model.file_page import FilePage
from hvdprof.model.run import RunAnalysis
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.report.finding_texts import file_texts, finding_texts
from hvdprof.report.screen.file_tiles import (
    attached_pages,
    file_tiles,
    has_comparison,
    is_of_files_alone,
)
from hvdprof.report.screen.open_points import main_finding, open_points, verdict_band
from hvdprof.report.screen.rank_bars import rank_bars
from hvdprof.report.screen.rank_phases import rank_phases
from hvdprof.report.screen.tiles import STEPS_FACT, progress_of, verdict_cell
from hvdprof.report.terminal.report_page import shape_page

PATH = "/"
TITLE = "Diagnosis"
KEYS: tuple[str, ...] = CELL_KEYS
lack = never_empty

_WATERFALL = "waterfall"
_FINDINGS_ABOUT = (
    "Problems in order of their cost. The potential gain is computed by replaying the measured "
    "steps without the problem."
)


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of a run or a standalone file."""

    def drawn() -> dmc.Stack:
        looked = runs.finished(str(view.run))
        return found_content(looked) if isinstance(looked, FilesAnalysis) else content(looked, view)

    # The server draws it before a browser asks for it.
    return runs.made(str(view.run), (PATH, *sorted(view.values.items())), drawn)


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
    parts: list[Component | None]
    if is_of_files_alone(analysis):
        first = headline_bar(analysis.verdict.headline, order=1)
        found = [] if analysis.findings.empty else [_findings(analysis, view, row)]
        parts = [first, *of_files, *found, data_quality(page, analysis), failed_cells(page)]
        parts.append(run_facts_card(analysis, page, view.run))
    else:
        parts = [
            None if progress is None else progress_card(progress),
            _verdict(analysis, view, row, cells, chosen),
            *_pictures(analysis, view, row, chosen),
            _findings(analysis, view, row),
            *of_files,
            failed_cells(page),
            folds_of_run(analysis, page, chosen, row, view.run or ""),
        ]
    return dmc.Stack([part for part in parts if part is not None], gap="sm")


def _verdict(
    analysis: RunAnalysis,
    view: View,
    row: FrameRow | None,
    cells: Sequence[WaterfallCell],
    chosen: WaterfallCell | None,
) -> html.Div:
    """The band with the step of the main finding, and its fix to copy."""
    links: list[Component] = []
    main = main_finding(analysis)
    if main is not None:
        shown = finding_links(analysis, view, main)
        links += [link for link in shown if "/timeline" in str(getattr(link, "href", ""))]
        texts = finding_texts(main)
        fix = texts.command or texts.action
        if fix:
            links.append(dmc.CopyButton(value=fix, children="Copy fix", size="compact-sm"))
    choices = None if chosen is None else cell_selects(cells, chosen)
    return band_card(verdict_band(analysis, row), links, choices)


def _pictures(
    analysis: RunAnalysis, view: View, row: FrameRow | None, chosen: WaterfallCell | None
) -> list[Component]:
    """The ranks beside the causes, and the run as a strip; what is not recorded leaves no gap."""
    if row is None:
        return []
    bars, strip = rank_bars(analysis, row), run_strip(analysis, row)
    phases = rank_phases(analysis, row)
    sentence = "" if phases is None else phases.sentence
    shown: list[Component] = []
    if bars is not None:
        launches = units.counted(int(row["num_launches"]), "launch")
        place = place_name(str(row["model"]), int(row["np"]), str(row["engine"]))
        steps = html.Span(units.count(row["num_steps"]), **fact(STEPS_FACT))
        source: list[Component | str] = [f"{place}, ", steps, f" steady steps, {launches}"]
        shown.append(rank_bars_card(bars, sentence, source, view))
    if has_comparison(analysis) or (chosen is not None and bars is not None):
        kind = figure_kind(_WATERFALL)
        low = waterfall_figure(analysis, chosen, compact=True)
        shown.append(low_figure_card(kind.name, kind.title, low, kind.about))
    pair = [html.Div(shown, className="pair")] if shown else []
    return [*pair, *([] if strip is None else [strip_card(strip, view)])]


def _scaling_row(analysis: RunAnalysis, cell: WaterfallCell | None) -> FrameRow | None:
    """The row of SCALING of a cell; that of the verdict where there is none."""
    for row in analysis.scaling.to_dict("records"):
        if cell is not None and all(row[key] == getattr(cell, key) for key in CELL_KEY):
            return row
    return verdict_cell(analysis)


def found_content(found: FilesAnalysis) -> dmc.Stack:
    """The page of standalone files: tiles, verdict and facts of each, and open questions."""
    said = [file for file in found.files if file.facts or file.verdict or file.unanswered]
    joint: list[Component] = []
    for verdict in found.verdicts:
        joint.append(headline_bar(verdict.sentence, order=1))
        joint += [dmc.Text(f"Caveat: {verdict.caveat}", size="sm")] if verdict.caveat else []
    files = [part for file in said for part in _file(file)]
    parts = files + joint if found.is_grave else joint + files
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
        about = f"{number} that this file does not answer, with the commands that do"
        parts.append(folded(about, *open_, look="finding"))
    return parts


def _findings(analysis: RunAnalysis, view: View, row: FrameRow | None) -> dmc.Paper:
    """The findings on the job, one line each; those on hvdprof itself are notes on quality."""
    points = open_points(analysis)
    cards: list[Component] = [] if points is None else [open_points_card(points)]

    def links(finding: FrameRow) -> Sequence[Component]:
        return finding_links(analysis, view, finding)

    of_job = analysis.findings
    of_job = of_job[~of_job["id"].isin(OWN_RULES).to_numpy(dtype=bool)]
    is_own = np.ones(len(of_job), dtype=bool) if row is None else is_of_cell(of_job, row)
    cards += finding_list(of_job[is_own], links)
    if not cards:
        why = "No finding." if row is not None else "No finding: nothing is measured."
        cards = [dmc.Text(why, size="sm")]
    if len(others := of_job[~is_own]):
        number = units.counted(len(others), "finding")
        about = f"{number} on other models or numbers of ranks"
        cards.append(folded_findings(about, others, links))
    return section("Findings", *cards, hint=_FINDINGS_ABOUT)
