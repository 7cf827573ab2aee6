"""Limits of one run for CI: a Markdown page, cases of JUnit, annotations of GitHub."""

import io
from collections.abc import Sequence
from typing import IO

from hvdprof.model.limits import LimitOutcome, LimitResult
from hvdprof.model.run import RunAnalysis
from hvdprof.report.ci.github import Annotation, AnnotationKind, write_github
from hvdprof.report.ci.junit import CaseOutcome, JunitCase, write_junit
from hvdprof.report.format_names import AnalysisFormat
from hvdprof.report.markdown_text import escaped, table_row

_TITLE = "hvdprof analyze"
_CASES = {
    LimitOutcome.FAILED: CaseOutcome.FAILURE,
    LimitOutcome.PASSED: CaseOutcome.PASSED,
    LimitOutcome.UNDECIDED: CaseOutcome.SKIPPED,
}
_KINDS = {
    LimitOutcome.FAILED: AnnotationKind.ERROR,
    LimitOutcome.PASSED: AnnotationKind.NOTICE,
    LimitOutcome.UNDECIDED: AnnotationKind.WARNING,
}


def render_limits(
    analysis: RunAnalysis,
    results: Sequence[LimitResult],
    format_: AnalysisFormat,
    stream: IO[str],
) -> None:
    """Write the verdict of a run and what became of its limits.

    Args:
        analysis: The run.
        results: What ``limit_results`` says of it.
        format_: One of ``GATES``.
        stream: Where to.

    Raises:
        StorageError: The summary of a GitHub step could not be written.
    """
    sentence = analysis.verdict.sentence
    if format_ is AnalysisFormat.JUNIT:
        cases = [JunitCase("limit", one.text, _CASES[one.outcome], one.sentence) for one in results]
        write_junit(_TITLE, cases, sentence, stream)
        return
    page = io.StringIO()
    page.write(f"**{escaped(sentence)}**\n\n")
    page.write(f"{table_row(('limit', 'outcome', 'cells'))}\n| --- | --- | --- |\n")
    for one in results:
        page.write(table_row((one.text, one.outcome, _cells(one))) + "\n")
    if format_ is AnalysisFormat.MARKDOWN:
        stream.write(page.getvalue())
        return
    annotations = [Annotation(_KINDS[one.outcome], _TITLE, one.sentence) for one in results]
    write_github(annotations, page.getvalue(), stream)


def _cells(result: LimitResult) -> str:
    return f"{result.cells}. {result.advice}" if result.advice else result.cells
