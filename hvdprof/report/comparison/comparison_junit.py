"""A comparison as JUnit XML: one test case for each cell and metric that is judged.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

import re
from typing import IO
from xml.etree import ElementTree as ET

from hvdprof.model.cell_key import cell_label
from hvdprof.model.comparison import (
    METRICS,
    Comparison,
    ComparisonOutcome,
    GateResult,
    change_text,
    size_text,
)
from hvdprof.model.frame_row import FrameRow
from hvdprof.report.comparison.comparison_texts import gate_text

_METRIC_OF = {metric.name: metric for metric in METRICS}
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_comparison_junit(comparison: Comparison, stream: IO[str]) -> None:
    """Write one test suite: regressed is a failure, inconclusive and not comparable are skipped.

    With conditions of a gate their metrics are judged, else the metric of the verdict.
    """
    judged = {result.condition.metric.name for result in comparison.gate}
    judged = judged or {comparison.metric.name}
    rows = [row for row in comparison.cells.to_dict("records") if row["metric"] in judged]
    outcomes = [str(row["outcome"]) for row in rows]
    outcomes += [str(result.outcome) for result in comparison.gate]
    suite = ET.Element(
        "testsuite",
        name="hvdprof compare",
        tests=str(len(outcomes)),
        failures=str(outcomes.count(ComparisonOutcome.REGRESSED)),
        errors="0",
        skipped=str(
            outcomes.count(ComparisonOutcome.INCONCLUSIVE)
            + outcomes.count(ComparisonOutcome.NOT_COMPARABLE)
        ),
    )
    for result in comparison.gate:
        _add_result(suite, result)
    for row in rows:
        _add_case(suite, row)
    ET.SubElement(suite, "system-out").text = _clean(
        f"{comparison.sentence}\n{comparison.caveat}".strip()
    )
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    stream.write(ET.tostring(root, encoding="unicode") + "\n")


def _add_result(suite: ET.Element, result: GateResult) -> None:
    case = ET.SubElement(suite, "testcase", classname="gate", name=_clean(result.condition.text))
    if result.outcome == ComparisonOutcome.REGRESSED:
        ET.SubElement(case, "failure", message=_clean(gate_text(result)))
    elif result.outcome != ComparisonOutcome.EQUAL:
        ET.SubElement(case, "skipped", message=_clean(gate_text(result)))


def _add_case(suite: ET.Element, row: FrameRow) -> None:
    metric = _METRIC_OF[str(row["metric"])]
    case = ET.SubElement(suite, "testcase", classname=_clean(cell_label(row)), name=metric.name)
    text = f"{metric.title} {change_text(row, metric)}, margin {size_text(row['margin'], metric)}"
    if row["outcome"] == ComparisonOutcome.REGRESSED:
        ET.SubElement(case, "failure", message=_clean(text))
    elif row["outcome"] in (ComparisonOutcome.INCONCLUSIVE, ComparisonOutcome.NOT_COMPARABLE):
        reason = f"{row['outcome']}: {row['reason'] or text}"
        ET.SubElement(case, "skipped", message=_clean(reason))


def _clean(text: str) -> str:
    """XML 1.0 has no control characters."""
    return _NOT_IN_XML.sub("?", text)
