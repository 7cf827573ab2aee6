"""The sections of a run beyond its cells and findings, in the order of every report."""

from collections.abc import Callable
from dataclasses import dataclass

from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import Table
from hvdprof.model.tables.finding_tables import LIVE_EVENTS
from hvdprof.model.tables.line_tables import LINES
from hvdprof.model.tables.printed_tables import NCCL_TEST_RUNS, NCCL_TESTS
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_BANDWIDTHS
from hvdprof.model.tables.sample_tables import NET_LINKS, RANK_MACHINE
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT
from hvdprof.model.tables.waterfall_tables import ENGINE_DIFFS
from hvdprof.model.tables.window_tables import SESSIONS
from hvdprof.report.screen.file_tiles import attached_pages
from hvdprof.report.sections.code_lines import caused_wait_sections, line_sections
from hvdprof.report.sections.file_page import file_sections, nccl_test_sections
from hvdprof.report.sections.live_events import live_sections, session_sections
from hvdprof.report.sections.machine import machine_sections
from hvdprof.report.sections.network import collective_sections, engine_sections, network_sections
from hvdprof.report.sections.section import Section


@dataclass(frozen=True, slots=True)
class Shown:
    """A table of the analysis, and what makes its sections; none where it has nothing to show."""

    table: Table
    shape: Callable[[RunAnalysis], tuple[Section, ...]]


SECTIONS: tuple[Shown, ...] = (
    Shown(CAUSED_WAIT, caused_wait_sections),
    Shown(LINES, line_sections),
    Shown(RANK_MACHINE, machine_sections),
    Shown(COLLECTIVE_BANDWIDTHS, collective_sections),
    Shown(ENGINE_DIFFS, engine_sections),
    Shown(LIVE_EVENTS, live_sections),
    Shown(SESSIONS, session_sections),
    Shown(NET_LINKS, network_sections),
)


def attached_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """The pages of attached files and their tables of nccl-tests, which come before findings."""
    run = analysis.run
    pages = (section for page in attached_pages(analysis) for section in file_sections(page))
    tests = nccl_test_sections(run.table(NCCL_TEST_RUNS.name), run.table(NCCL_TESTS.name))
    return (*pages, *tests)


def sections_of(analysis: RunAnalysis) -> tuple[Section, ...]:
    """All sections of a run."""
    return tuple(section for shown in SECTIONS for section in shown.shape(analysis))
