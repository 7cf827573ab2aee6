"""The formats of a comparison, and the ends of file names that choose one.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

from dataclasses import asdict
from functools import partial

from hvdprof.model.results.comparison import Comparison
from hvdprof.report.answer import Answer
from hvdprof.report.comparison.comparison_ci import (
    render_comparison_github,
    render_comparison_junit,
)
from hvdprof.report.comparison.comparison_csv import write_values
from hvdprof.report.comparison.comparison_page import comparison_page
from hvdprof.report.format_names import ComparisonFormat
from hvdprof.report.json_values import JsonObject, json_rows, json_value

COMPARISON_SCHEMA_VERSION = 1


def comparison_answer(comparison: Comparison) -> Answer:
    """A comparison, to be written in every ``ComparisonFormat``."""
    values = [
        ((number, side.created_at, side.commit, side.name), row, str(row["unit"]), name)
        for number, side, name in (
            ("1", comparison.first, "first"),
            ("2", comparison.second, "second"),
        )
        for row in comparison.cells.to_dict("records")
    ]
    return Answer(
        partial(comparison_page, comparison),
        partial(_object, comparison),
        {
            "csv": partial(write_values, values),
            "junit": partial(render_comparison_junit, comparison),
            "github": partial(render_comparison_github, comparison),
        },
    )


def _object(comparison: Comparison) -> JsonObject:
    """The keys are listed in docs/howto/compare.md."""
    return {
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


SUFFIXES: dict[str, ComparisonFormat] = {
    ".json": ComparisonFormat.JSON,
    ".md": ComparisonFormat.MARKDOWN,
    ".xml": ComparisonFormat.JUNIT,
    ".csv": ComparisonFormat.CSV,
    ".txt": ComparisonFormat.TERMINAL,
}
"""The ends of file names that choose a format."""
