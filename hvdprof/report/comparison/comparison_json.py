"""A comparison as one JSON object.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

from dataclasses import asdict
from typing import IO

from hvdprof.model.comparison import Comparison
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
