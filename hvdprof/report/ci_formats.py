"""Results for CI services: cases of JUnit XML, annotations of GitHub, and the limits of a run.

The runner shows ten annotations of a kind and step, and a summary of up to 1 MiB.
"""

import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO
from xml.etree import ElementTree as ET

from hvdprof.errors import StorageError
from hvdprof.model.limits import LimitOutcome, LimitResult
from hvdprof.model.run import RunAnalysis
from hvdprof.report.document.section_markdown import escaped, table_row
from hvdprof.report.format_names import AnalysisFormat

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_ANNOTATIONS = 10
MOST_SUMMARY_BYTES = 1_000_000
_CUT = "\n\nThe rest is longer than a summary may be.\n"

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class AnnotationKind(StrEnum):
    """The commands of the runner."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Annotation:
    """What the runner shows beside the step."""

    kind: AnnotationKind
    title: str
    text: str

    def command(self) -> str:
        """The line that the runner reads."""
        title = _escaped(self.title).replace(":", "%3A").replace(",", "%2C")
        return f"::{self.kind} title={title}::{_escaped(self.text)}"


def write_github(annotations: Iterable[Annotation], page: str, stream: IO[str]) -> None:
    """Write at most ten annotations of a kind, and append a Markdown page to the step's summary.

    Outside GitHub Actions, without ``GITHUB_STEP_SUMMARY``, the page follows the annotations.

    Raises:
        StorageError: The summary could not be written.
    """
    written: Counter[AnnotationKind] = Counter()
    for annotation in annotations:
        written[annotation.kind] += 1
        if written[annotation.kind] <= MOST_ANNOTATIONS:
            stream.write(annotation.command() + "\n")
    summary = os.environ.get(SUMMARY_VARIABLE)
    if summary is None:
        stream.write(page)
        return
    try:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(_bounded(page))
    except OSError as error:
        raise StorageError(
            f"Could not append to {summary}: {error.strerror}.",
            hint=f"{SUMMARY_VARIABLE} names the summary of the step.",
        ) from error


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _bounded(page: str) -> str:
    if len(page.encode()) <= MOST_SUMMARY_BYTES:
        return page
    room = MOST_SUMMARY_BYTES - len(_CUT.encode())
    return page.encode()[:room].decode(errors="ignore") + _CUT


class CaseOutcome(StrEnum):
    """What JUnit knows: a failure, a case that was not decided, or neither."""

    FAILURE = "failure"
    SKIPPED = "skipped"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class JunitCase:
    """One test case; ``text`` is the message of a failure or of one that was skipped."""

    group: str
    name: str
    outcome: CaseOutcome
    text: str = ""


def write_junit(suite_name: str, cases: Sequence[JunitCase], text: str, stream: IO[str]) -> None:
    """Write one test suite with its cases, and a text as its output."""
    outcomes = [case.outcome for case in cases]
    suite = ET.Element(
        "testsuite",
        name=suite_name,
        tests=str(len(outcomes)),
        failures=str(outcomes.count(CaseOutcome.FAILURE)),
        errors="0",
        skipped=str(outcomes.count(CaseOutcome.SKIPPED)),
    )
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", classname=_clean(case.group), name=_clean(case.name)
        )
        if case.outcome is not CaseOutcome.PASSED:
            ET.SubElement(element, case.outcome, message=_clean(case.text))
    ET.SubElement(suite, "system-out").text = _clean(text)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    stream.write(ET.tostring(root, encoding="unicode") + "\n")


def _clean(text: str) -> str:
    """XML 1.0 has no control characters."""
    return _NOT_IN_XML.sub("?", text)


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
    analysis: RunAnalysis, results: Sequence[LimitResult], format_: AnalysisFormat, stream: IO[str]
) -> None:
    """Write the verdict of a run and what became of its limits.

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
