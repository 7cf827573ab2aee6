"""The pages of attached files beside the verdict of their run, which is not said twice.

Tested in ``tests/cli/test_attach.py``.
"""

from dataclasses import replace

from hvdprof.model.file_page import FilePage
from hvdprof.model.run import RunAnalysis


def attached_pages(analysis: RunAnalysis) -> list[FilePage]:
    """The pages, without a verdict and its caveat where those of the run hold them."""
    said = analysis.verdict.sentence
    return [
        replace(page, verdict="", caveat="") if page.verdict and page.verdict in said else page
        for page in analysis.pages
    ]
