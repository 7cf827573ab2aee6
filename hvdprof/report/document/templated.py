"""What the reports that are made of a template share: their words, and how text gets into them."""

import re
import shlex
from importlib import resources

import jinja2

from hvdprof import __version__
from hvdprof.model.run import RunAnalysis
from hvdprof.plain_text import printable_lines
from hvdprof.report.document.section_markdown import (
    code_pieces,
    escaped,
    findings_markdown,
    markdown_of,
    with_code,
)
from hvdprof.report.finding_texts import findings_texts
from hvdprof.report.screen.file_tiles import is_of_files_alone
from hvdprof.report.screen.open_points import open_points
from hvdprof.report.screen.rank_phases import PHASES, rank_phases
from hvdprof.report.screen.tiles import tiles, verdict_cell
from hvdprof.report.sections.forecast_page import forecast_sections
from hvdprof.report.sections.run_sections import attached_sections, sections_of
from hvdprof.report.sections.section import Page, sections_of_notes
from hvdprof.report.terminal.report_page import CELL_HEADS, shape_page
from hvdprof.report.terminal.run_facts import run_created, run_facts, run_label


def fill(template: str, analysis: RunAnalysis, *, is_html: bool, **more: object) -> str:
    """A template of ``report/document/templates`` with the words of an analysis in it.

    In HTML every text is escaped; in Markdown the templates' filter ``md`` does it, and makes one
    line of several.
    """
    manifest = analysis.run.manifest
    cell = verdict_cell(analysis)
    shown_tiles = () if is_of_files_alone(analysis) else tiles(analysis)
    # A fence for code in Markdown that is longer than any within the text.
    text = shlex.join(manifest.command)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return (
        _environment(is_html=is_html)
        .get_template(template)
        .render(
            page=shape_page(analysis),
            headline=analysis.verdict.headline,
            tiles=shown_tiles,
            attached=attached_sections(analysis),
            strip=None if cell is None else rank_phases(analysis, cell),
            phases=list(PHASES.values()),
            open_points=open_points(analysis),
            created=run_created(manifest),
            findings=findings_texts(analysis.findings),
            found=analysis.findings,
            facts=run_facts(analysis),
            cell_heads=CELL_HEADS,
            sections=(*sections_of(analysis), *forecast_sections(analysis)),
            name=run_label(analysis.run),
            command=shlex.join(manifest.command),
            fence="`" * max(3, longest + 1),
            version=manifest.hvdprof_version or __version__,
            **more,
        )
    )


def fill_page(page: Page, name: str) -> str:
    """A page of sections as HTML."""
    first = page.sections[0]
    return (
        _environment(is_html=True)
        .get_template("page.html.j2")
        .render(
            headline=first.verdict or first.title,
            sections=(*page.sections, *sections_of_notes(page.notes)),
            findings=findings_texts(page.findings),
            name=name,
            version=__version__,
        )
    )


def _environment(*, is_html: bool) -> jinja2.Environment:
    folder = resources.files("hvdprof.report.document").joinpath("templates")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    environment.globals["markdown_of"] = markdown_of
    environment.globals["findings_markdown"] = findings_markdown
    environment.filters["md"] = escaped
    environment.filters["md_code"] = with_code
    environment.filters["code_pieces"] = code_pieces
    return environment


def _shown(value: object) -> object:
    """A text of a file without control characters; markup of hvdprof itself as it is."""
    return printable_lines(value) if type(value) is str else value
