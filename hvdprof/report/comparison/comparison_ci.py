"""A comparison for CI: cases of JUnit, annotations of GitHub.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

import io
from collections.abc import Iterator
from typing import IO

from hvdprof.model.cell_key import cell_label
from hvdprof.model.frame_row import FrameRow, is_missing
from hvdprof.model.results.comparison import (
    METRICS,
    Comparison,
    ComparisonOutcome,
    GateResult,
    change_text,
    size_text,
)
from hvdprof.report.ci.github import Annotation, AnnotationKind, write_github
from hvdprof.report.ci.junit import CaseOutcome, JunitCase, write_junit
from hvdprof.report.comparison.comparison_page import comparison_page, gate_text
from hvdprof.report.document.section_markdown import write_markdown

_TITLE = "hvdprof compare"
_METRIC_OF = {metric.name: metric for metric in METRICS}
_OPEN = (ComparisonOutcome.INCONCLUSIVE, ComparisonOutcome.NOT_COMPARABLE)
_GOOD = (ComparisonOutcome.IMPROVED, ComparisonOutcome.EQUAL)


def render_comparison_junit(comparison: Comparison, stream: IO[str]) -> None:
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


def render_comparison_github(comparison: Comparison, stream: IO[str]) -> None:
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
