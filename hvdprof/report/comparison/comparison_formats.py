"""The formats of a comparison, and the ends of file names that choose one.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

from collections.abc import Callable
from typing import IO

from hvdprof.model.comparison import Comparison
from hvdprof.report.comparison.comparison_ci import (
    render_comparison_github,
    render_comparison_junit,
)
from hvdprof.report.comparison.comparison_csv import render_comparison_csv
from hvdprof.report.comparison.comparison_json import render_comparison_json
from hvdprof.report.comparison.comparison_markdown import render_comparison_markdown
from hvdprof.report.comparison.comparison_terminal import render_comparison
from hvdprof.report.format_names import ComparisonFormat

RENDERERS: dict[ComparisonFormat, Callable[[Comparison, IO[str]], None]] = {
    ComparisonFormat.TERMINAL: render_comparison,
    ComparisonFormat.JSON: render_comparison_json,
    ComparisonFormat.MARKDOWN: render_comparison_markdown,
    ComparisonFormat.JUNIT: render_comparison_junit,
    ComparisonFormat.GITHUB: render_comparison_github,
    ComparisonFormat.CSV: render_comparison_csv,
}
"""What writes a comparison to a text stream."""

SUFFIXES: dict[str, ComparisonFormat] = {
    ".json": ComparisonFormat.JSON,
    ".md": ComparisonFormat.MARKDOWN,
    ".xml": ComparisonFormat.JUNIT,
    ".csv": ComparisonFormat.CSV,
    ".txt": ComparisonFormat.TERMINAL,
}
"""The ends of file names that choose a format."""
