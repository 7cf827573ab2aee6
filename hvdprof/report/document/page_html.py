"""Any page of sections as one HTML file.

Tested in ``tests/cli/test_report.py``.
"""

from collections.abc import Callable
from typing import IO

from hvdprof.errors import MissingExtraError
from hvdprof.report.sections.section import Page


def render_page_html(page: Callable[[], Page], name: str, stream: IO[str]) -> None:
    """Write sections, findings and notes; the first verdict is the heading.

    Args:
        page: Makes the page.
        name: What it is about.
        stream: Where to.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    try:
        from hvdprof.report.document.templated import fill_page
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hvdprof"):
            raise
        raise MissingExtraError("The report", extra="report") from error
    stream.write(fill_page(page(), name))
