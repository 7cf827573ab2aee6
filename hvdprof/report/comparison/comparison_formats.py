"""The formats of a comparison: pages, JSON, CSV, and for CI cases of JUnit, notes of GitHub.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

import io
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import IO

from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.cell_key import cell_label
from hvdprof.model.results.comparison import (
    METRICS,
    Comparison,
    ComparisonOutcome,
    GateResult,
    change_text,
    size_text,
)
from hvdprof.report.answer import Answer
from hvdprof.report.ci.github import Annotation, AnnotationKind, write_github
from hvdprof.report.ci.junit import CaseOutcome, JunitCase, write_junit
from hvdprof.report.comparison.comparison_csv import write_values
from hvdprof.report.comparison.comparison_page import comparison_page, gate_text
from hvdprof.report.document.section_markdown import write_markdown
from hvdprof.report.format_names import ComparisonFormat
from hvdprof.report.json_values import JsonObject, json_rows, json_value

COMPARISON_SCHEMA_VERSION = 1
_TITLE = "hvdprof compare"
_METRIC_OF = {metric.name: metric for metric in METRICS}
_OPEN = (ComparisonOutcome.INCONCLUSIVE, ComparisonOutcome.NOT_COMPARABLE)
_GOOD = (ComparisonOutcome.IMPROVED, ComparisonOutcome.EQUAL)


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
            "junit": partial(_junit, comparison),
            "github": partial(_github, comparison),
        },
        name=_TITLE,
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
        "lines": json_rows(comparison.lines),
        "settings": json_rows(comparison.settings),
        "notes": list(comparison.notes),
    }


SUFFIXES: dict[str, ComparisonFormat] = {
    ".json": ComparisonFormat.JSON,
    ".html": ComparisonFormat.HTML,
    ".md": ComparisonFormat.MARKDOWN,
    ".xml": ComparisonFormat.JUNIT,
    ".csv": ComparisonFormat.CSV,
    ".txt": ComparisonFormat.TERMINAL,
}
"""The ends of file names that choose a format."""


def _junit(comparison: Comparison, stream: IO[str]) -> None:
    """Write one test suite: regressed is a failure, inconclusive and not comparable are skipped.

    With conditions of a gate their metrics are judged, else the metric of the verdict.
    """
    judged = {result.condition.metric.name for result in comparison.gate}
    judged = judged or {comparison.metric.name}
    cases = [_case_of_result(result) for result in comparison.gate]
    cases += [
        _case_of_cell(row) for row in comparison.cells.to_dict("records") if row["metric"] in judged
    ]
    write_junit(_TITLE, cases, f"{comparison.sentence}\n{comparison.caveat}".strip(), stream)


def _github(comparison: Comparison, stream: IO[str]) -> None:
    """Write the annotations, and append the Markdown page to the summary of the step.

    Raises:
        StorageError: The summary could not be written.
    """
    page = io.StringIO()
    write_markdown(comparison_page(comparison), page)
    write_github(_annotations(comparison), page.getvalue(), stream)


def _case_of_result(result: GateResult) -> JunitCase:
    outcome = CaseOutcome.SKIPPED
    if result.outcome == ComparisonOutcome.REGRESSED:
        outcome = CaseOutcome.FAILURE
    elif result.outcome == ComparisonOutcome.EQUAL:
        outcome = CaseOutcome.PASSED
    return JunitCase("gate", result.condition.text, outcome, gate_text(result))


def _case_of_cell(row: FrameRow) -> JunitCase:
    metric = _METRIC_OF[str(row["metric"])]
    text = f"{metric.title} {change_text(row, metric)}, margin {size_text(row['margin'], metric)}"
    outcome = CaseOutcome.PASSED
    if row["outcome"] == ComparisonOutcome.REGRESSED:
        outcome = CaseOutcome.FAILURE
    elif row["outcome"] in _OPEN:
        outcome, text = CaseOutcome.SKIPPED, f"{row['outcome']}: {row['reason'] or text}"
        needed = 0 if is_missing(row["launches_needed"]) else int(row["launches_needed"])
        if needed and row["outcome"] == ComparisonOutcome.INCONCLUSIVE:
            text += f"; measure both with --repeats {needed}: about as many would decide"
    return JunitCase(cell_label(row), metric.name, outcome, text)


def _annotations(comparison: Comparison) -> Iterator[Annotation]:
    is_good = comparison.outcome in _GOOD
    kind = AnnotationKind.NOTICE if is_good else AnnotationKind.WARNING
    yield Annotation(kind, _TITLE, comparison.sentence)
    failed = [result for result in comparison.gate if result.outcome is ComparisonOutcome.REGRESSED]
    for result in failed:
        yield Annotation(AnnotationKind.ERROR, _TITLE, gate_text(result))
    judged = {result.condition.metric.name for result in failed}
    for row in comparison.cells.to_dict("records"):
        if row["outcome"] == ComparisonOutcome.REGRESSED and row["metric"] in judged:
            metric = _METRIC_OF[str(row["metric"])]
            text = f"{metric.title} {change_text(row, metric)}"
            yield Annotation(AnnotationKind.ERROR, cell_label(row), text)
