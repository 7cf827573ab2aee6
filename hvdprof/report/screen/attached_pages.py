"""Attached files and traces on a first screen: their pages, and what stays away without a baseline.

Tested in ``tests/cli/test_attach.py``.
"""

from dataclasses import replace

from hvdprof.model.file_page import FilePage
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waterfall_tables import WATERFALL


def attached_pages(analysis: RunAnalysis) -> list[FilePage]:
    """The pages, without a verdict and its caveat where those of the run hold them."""
    said = analysis.verdict.sentence
    return [
        replace(page, verdict="", caveat="") if page.verdict and page.verdict in said else page
        for page in analysis.pages
    ]


def is_of_files_alone(analysis: RunAnalysis) -> bool:
    """Whether there are attached files and no throughput, so that its tiles would be empty."""
    return analysis.scaling.empty and bool(analysis.pages)


def has_comparison(analysis: RunAnalysis) -> bool:
    """Whether a cell has a baseline or a waterfall; traces of another tool have neither.

    A run without any cell counts, too: its figures say that nothing was measured.
    """
    if is_of_files_alone(analysis):
        return False
    known = analysis.scaling["efficiency"].notna()
    is_empty = analysis.scaling.empty
    return is_empty or bool(known.any()) or not analysis.table(WATERFALL.name).empty
