"""A comparison for GitHub Actions: annotations on standard output, a summary of the step.

The runner shows ten annotations of a kind and step, and a summary of up to 1 MiB.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hvdprof.errors import StorageError
from hvdprof.model.cell_key import cell_label
from hvdprof.model.comparison import METRICS, Comparison, ComparisonOutcome, change_text
from hvdprof.report.comparison.comparison_markdown import render_comparison_markdown
from hvdprof.report.comparison.comparison_texts import gate_text

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_ANNOTATIONS = 10
MOST_SUMMARY_BYTES = 1_000_000
_CUT = "\n\nThe rest is longer than a summary may be.\n"
_METRIC_OF = {metric.name: metric for metric in METRICS}
_COMMANDS = {
    ComparisonOutcome.REGRESSED: "warning",
    ComparisonOutcome.IMPROVED: "notice",
    ComparisonOutcome.EQUAL: "notice",
    ComparisonOutcome.INCONCLUSIVE: "warning",
    ComparisonOutcome.NOT_COMPARABLE: "warning",
}


def render_comparison_github(comparison: Comparison, stream: IO[str]) -> None:
    """Write the annotations, and append the Markdown page to the summary of the step.

    Outside GitHub Actions, without ``GITHUB_STEP_SUMMARY``, the page follows the annotations.

    Raises:
        StorageError: The summary could not be written.
    """
    for line in _annotations(comparison):
        stream.write(line + "\n")
    page = io.StringIO()
    render_comparison_markdown(comparison, page)
    summary = os.environ.get(SUMMARY_VARIABLE)
    if summary is None:
        stream.write(page.getvalue())
        return
    try:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(_bounded(page.getvalue()))
    except OSError as error:
        raise StorageError(
            f"Could not append to {summary}: {error.strerror}.",
            hint=f"{SUMMARY_VARIABLE} names the summary of the step.",
        ) from error


def _annotations(comparison: Comparison) -> Iterator[str]:
    yield _command(_COMMANDS[comparison.outcome], "hvdprof compare", comparison.sentence)
    failed = [result for result in comparison.gate if result.outcome is ComparisonOutcome.REGRESSED]
    errors = [_command("error", "hvdprof compare", gate_text(result)) for result in failed]
    judged = {result.condition.metric.name for result in failed}
    for row in comparison.cells.to_dict("records"):
        if row["outcome"] == ComparisonOutcome.REGRESSED and row["metric"] in judged:
            metric = _METRIC_OF[str(row["metric"])]
            text = f"{metric.title} {change_text(row, metric)}"
            errors.append(_command("error", cell_label(row), text))
    yield from errors[:MOST_ANNOTATIONS]


def _command(kind: str, title: str, text: str) -> str:
    escaped = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={escaped}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _bounded(page: str) -> str:
    if len(page.encode()) <= MOST_SUMMARY_BYTES:
        return page
    room = MOST_SUMMARY_BYTES - len(_CUT.encode())
    return page.encode()[:room].decode(errors="ignore") + _CUT
