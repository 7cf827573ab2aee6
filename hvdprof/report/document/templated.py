"""What the reports that are made of a template share: their words, and how text gets into them.

Tested in ``tests/report/document/test_html_report.py``.
"""

import re
import shlex
from importlib import resources

import jinja2

from hvdprof import __version__
from hvdprof.model.notes import texts
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.printed_tables import NCCL_TEST_RUNS, NCCL_TESTS
from hvdprof.plain_text import printable_lines
from hvdprof.report.file_texts import NOT_IN_FILE, file_texts
from hvdprof.report.finding_texts import findings_texts
from hvdprof.report.forecast.forecast_section import FORECAST_HEADS, shape_forecasts
from hvdprof.report.markdown_text import code_pieces, escaped, with_code
from hvdprof.report.screen.attached_pages import attached_pages, is_of_files_alone
from hvdprof.report.screen.open_points import open_points
from hvdprof.report.screen.rank_phases import PHASES, rank_phases
from hvdprof.report.screen.tiles import tiles, verdict_cell
from hvdprof.report.sections.run_sections import sections_of
from hvdprof.report.terminal.bandwidth_section import BandwidthTable, shape_nccl_tests
from hvdprof.report.terminal.files_report import shape_throughputs
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
    return (
        _environment(is_html=is_html)
        .get_template(template)
        .render(
            page=shape_page(analysis),
            headline=analysis.verdict.headline,
            tiles=shown_tiles,
            files=[file_texts(file) for file in attached_pages(analysis)],
            not_in_file=NOT_IN_FILE,
            bandwidths=_bandwidths(analysis.run),
            strip=None if cell is None else rank_phases(analysis, cell),
            phases=list(PHASES.values()),
            open_points=open_points(analysis),
            created=run_created(manifest),
            findings=findings_texts(analysis.findings),
            facts=run_facts(analysis),
            cell_heads=CELL_HEADS,
            sections=sections_of(analysis),
            forecasts=shape_forecasts(analysis),
            forecast_heads=FORECAST_HEADS,
            name=run_label(analysis.run),
            command=shlex.join(manifest.command),
            fence=_fence(shlex.join(manifest.command)),
            version=manifest.hvdprof_version or __version__,
            **more,
        )
    )


def fill_files(template: str, found: FilesAnalysis, *, is_html: bool) -> str:
    """The same for the analysis of standalone files."""
    files = [file_texts(file) for file in found.files]
    return (
        _environment(is_html=is_html)
        .get_template(template)
        .render(
            headline=next((each.sentence for each in found.verdicts), "")
            or files[0].verdict
            or files[0].file,
            verdicts=found.verdicts,
            files=files,
            not_in_file=NOT_IN_FILE,
            bandwidths=_bandwidths(found.run),
            throughputs=shape_throughputs(found),
            findings=findings_texts(found.table(FINDINGS.name)),
            warnings=texts(found.run.notes),
            name=found.run.manifest.name,
            version=__version__,
        )
    )


def _bandwidths(run: Run) -> list[BandwidthTable]:
    return shape_nccl_tests(run.table(NCCL_TEST_RUNS.name), run.table(NCCL_TESTS.name))


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
    environment.filters["md"] = escaped
    environment.filters["md_code"] = with_code
    environment.filters["code_pieces"] = code_pieces
    return environment


def _shown(value: object) -> object:
    """A text of a file without control characters; markup of hvdprof itself as it is."""
    return printable_lines(value) if type(value) is str else value


def _fence(text: str) -> str:
    """A fence for code in Markdown that is longer than any within the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)
