"""The formats of a comparison, and the ends of file names that choose one.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import IO

from hvdprof.model.results.comparison import Comparison
from hvdprof.report.comparison.comparison_ci import (
    render_comparison_github,
    render_comparison_junit,
)
from hvdprof.report.comparison.comparison_csv import render_comparison_csv
from hvdprof.report.comparison.comparison_markdown import render_comparison_markdown
from hvdprof.report.comparison.comparison_terminal import render_comparison
from hvdprof.report.format_names import ComparisonFormat
from hvdprof.report.json_values import JsonObject, json_rows, json_value, write_json

COMPARISON_SCHEMA_VERSION = 1


def render_comparison_json(comparison: Comparison, stream: IO[str]) -> None:
    """Write one indented object and a newline; docs/howto/compare.md lists its keys."""
    content: JsonObject = {
        "schema_version": COMPARISON_SCHEMA_VERSION,
        "outcome": str(comparison.outcome),
        "metric": comparison.metric.name,
        "confidence": comparison.confidence,
        "sentence": comparison.sentence,
        "caveat": comparison.caveat,
        "first": json_value(asdict(comparison.first)),
        "second": json_value(asdict(comparison.second)),
        "gate": [
            {
                "condition": result.condition.text,
                "metric": result.condition.metric.name,
                "margin": result.condition.margin,
                "outcome": str(result.outcome),
                "cells": list(result.cells),
                "not_judged": list(result.not_judged),
            }
            for result in comparison.gate
        ],
        "cells": json_rows(comparison.cells),
        "pooled": json_rows(comparison.pooled),
        "causes": json_rows(comparison.causes),
        "settings": json_rows(comparison.settings),
        "notes": list(comparison.notes),
    }
    write_json(content, stream)


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
