"""The first page: scaling efficiency, largest losses, findings, and data quality."""

import shlex
from functools import cache

import dash_mantine_components as dmc
from dash import Dash
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components import waterfall_choice
from hvdprof.dashboards.components.cell_tables import cell_table
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.dashboards.components.fact_table import fact_table
from hvdprof.dashboards.components.figure_card import figure_card
from hvdprof.dashboards.components.finding_cards import finding_list
from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.components.timeline_link import timeline_link
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.figures.catalogue import FIGURES, FigureKind
from hvdprof.figures.step_window import longest_step, step_windows
from hvdprof.figures.waterfall_figure import waterfall_cells, waterfall_figure
from hvdprof.model.run import RunAnalysis
from hvdprof.model.standalone_files import Fact, FilePage, FilesAnalysis
from hvdprof.report.terminal.report_page import Page, shape_page
from hvdprof.report.terminal.run_facts import run_facts

PATH = "/"
TITLE = "Overview"
KEYS: tuple[str, ...] = waterfall_choice.KEYS

_LOOK = "Longest step in the timeline"
_WATERFALL = "waterfall"
_FINDINGS_ABOUT = (
    "Problems in order of their cost. The potential gain is computed by replaying the measured "
    "steps without the problem."
)


def layout(runs: RunStore, view: View) -> dmc.Stack:
    """The page of a run or a standalone file."""
    looked = runs.look(str(view.run))
    if isinstance(looked, FilesAnalysis):
        return found_content(looked)
    return content(looked, view)


def register(app: Dash, runs: RunStore) -> None:
    """The page has no callbacks of its own."""


def content(analysis: RunAnalysis, view: View) -> dmc.Stack:
    """The page of a run directory."""
    page = shape_page(analysis)
    parts = [
        _verdict(page.verdict, page.caveat, page.stop),
        *_findings(analysis, view),
        *_figures(analysis, view),
    ]
    parts.append(_tables(page))
    parts += [part for part in (_not_measured(page), _warnings(page)) if part is not None]
    return dmc.Stack([*parts, _facts(analysis, page)], gap="md")


def found_content(found: FilesAnalysis) -> dmc.Stack:
    """The page of standalone files: verdict and facts of each, and open questions."""
    return dmc.Stack([part for file in found.files for part in _file(file)], gap="md")


def _file(file: FilePage) -> list[Component]:
    facts = fact_table([(fact.label, _value(fact)) for fact in file.facts if fact.label])
    about = f"{file.kind}, {units.byte_size(file.size_bytes)}"
    parts = [_verdict(file.verdict, file.caveat)] if file.verdict else []
    parts.append(section(file.file, facts, about=about))
    if file.unanswered:
        open_ = [empty_state(one.question, one.command) for one in file.unanswered]
        parts.append(section("Not in this file", *open_))
    return parts


def _value(fact: Fact) -> str:
    if fact.text:
        return fact.text
    if fact.value is None:
        return units.MISSING
    if isinstance(fact.value, str):
        return fact.value
    return units.of_unit(fact.value, fact.unit)


def _verdict(sentence: str, caveat: str, stop: str = "") -> dmc.Paper:
    parts: list[Component] = [dmc.Title(sentence, order=1, size="h3", fw=600)]
    if caveat:
        parts.append(dmc.Text(f"Caveat: {caveat}", size="sm"))
    if stop:
        parts.append(dmc.Text(stop, size="sm", className="about"))
    return dmc.Paper(dmc.Stack(parts, gap=4), p="md", radius="md", className="verdict")


def _figures(analysis: RunAnalysis, view: View) -> list[Component]:
    return [
        _waterfall(analysis, view, kind)
        if kind.name == _WATERFALL
        else figure_card(kind.name, kind.title, kind.draw(analysis), about=kind.about)
        for kind in FIGURES
    ]


def _waterfall(analysis: RunAnalysis, view: View, kind: FigureKind) -> dmc.Paper:
    cells = waterfall_cells(analysis)
    verdict = analysis.verdict
    cell = waterfall_choice.chosen_cell(cells, view, verdict.model, verdict.np)
    if cell is None:
        return figure_card(kind.name, kind.title, kind.draw(analysis))
    return figure_card(
        kind.name,
        kind.title,
        waterfall_figure(analysis, cell),
        about=kind.about,
        above=[waterfall_choice.cell_selects(cells, cell)],
    )


def _findings(analysis: RunAnalysis, view: View) -> list[Component]:
    if analysis.findings.empty:
        return []

    @cache
    def look(model: str, np: int, engine: str) -> Component | str | None:
        found = longest_step(analysis, model, np, engine)
        if found is None:
            return None
        launch, step = found
        windows = step_windows(analysis.run, launch, [step])
        return timeline_link(view, launch, step, windows, _LOOK) if windows else None

    cards = finding_list(analysis.findings, look)
    return [section("Findings", *cards, about=_FINDINGS_ABOUT)]


def _tables(page: Page) -> dmc.Paper:
    return section("All numbers", *[cell_table(table) for table in page.tables])


def _not_measured(page: Page) -> dmc.Paper | None:
    failed = [
        dmc.Stack(
            [
                dmc.Text(f"{cell.what}: {cell.reason}"),
                *([_code("\n".join(cell.lines))] if cell.lines else []),
            ],
            gap=4,
        )
        for cell in page.failed
    ]
    skipped = [
        dmc.Stack(
            [dmc.Text(group.reason), dmc.Text("; ".join(group.cells), className="about")], gap=0
        )
        for group in page.skipped
    ]
    parts = [
        section(title, *entries)
        for title, entries in (("Failed", failed), ("Skipped", skipped))
        if entries
    ]
    return dmc.Stack(parts, gap="md") if parts else None


def _warnings(page: Page) -> dmc.Alert | None:
    if not page.warnings:
        return None
    return dmc.Alert(
        dmc.List([dmc.ListItem(warning) for warning in page.warnings], size="sm"),
        title="Warnings",
        color="yellow",
        variant="light",
        className="caution",
    )


def _facts(analysis: RunAnalysis, page: Page) -> dmc.Paper:
    manifest = analysis.run.manifest
    lines = [
        fact_table(run_facts(analysis)),
        _code(shlex.join(manifest.command)),
    ]
    exports = [f"{line}  # {use}" for line, use in page.next_commands if " export " in line]
    if exports:
        lines += [
            dmc.Text("In a terminal:", size="sm"),
            _code("\n".join(exports)),
        ]
    return section(f"About the run {manifest.name}", *lines)


def _code(text: str) -> dmc.Code:
    return dmc.Code(text, block=True, className="keep-lines")
