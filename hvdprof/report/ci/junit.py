"""Judged cases as JUnit XML, for the test report of a CI service.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import IO
from xml.etree import ElementTree as ET

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
