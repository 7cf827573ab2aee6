"""The analysis of standalone files as one HTML file or as Markdown.

Tested in ``tests/cli/test_report.py``.
"""

from typing import IO

from hvdprof.errors import MissingExtraError
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.report.document.markdown_report import without_runs_of_empty_lines


def render_files_html(found: FilesAnalysis, stream: IO[str]) -> None:
    """Write a section per file, throughputs, findings and warnings as one HTML file.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    stream.write(_filled("files.html.j2", found, is_html=True))


def render_files_markdown(found: FilesAnalysis, stream: IO[str]) -> None:
    """Write the same as Markdown.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    stream.write(without_runs_of_empty_lines(_filled("files.md.j2", found, is_html=False)))


def _filled(template: str, found: FilesAnalysis, *, is_html: bool) -> str:
    try:
        from hvdprof.report.document.templated import fill_files
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hvdprof"):
            raise
        raise MissingExtraError("The report", extra="report") from error
    return fill_files(template, found, is_html=is_html)
