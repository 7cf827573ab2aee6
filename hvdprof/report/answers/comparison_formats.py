"""The formats of a comparison and of a series of runs: pages, JSON, CSV; for CI JUnit, GitHub."""

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import IO

from hvdprof import units
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.cell_key import CELL_KEY, NO_ADASUM, NO_COMPRESSION, cell_label
from hvdprof.model.results.comparison import (
    METRICS,
    Comparison,
    ComparisonOutcome,
    GateResult,
    History,
    change_at,
    change_text,
    size_text,
)
from hvdprof.report.answer import Answer
from hvdprof.report.answers.comparison_page import comparison_page, gate_text
from hvdprof.report.ci_formats import (
    Annotation,
    AnnotationKind,
    CaseOutcome,
    JunitCase,
    write_github,
    write_junit,
)
from hvdprof.report.document.section_markdown import write_markdown
from hvdprof.report.format_names import ComparisonFormat
from hvdprof.report.json_values import JsonObject, json_rows, json_value
from hvdprof.report.sections.section import Head, Page, Section, Tone

COMPARISON_SCHEMA_VERSION = 1
_TITLE = "hvdprof compare"
_METRIC_OF = {metric.name: metric for metric in METRICS}
_OPEN = (ComparisonOutcome.INCONCLUSIVE, ComparisonOutcome.NOT_COMPARABLE)
_GOOD = (ComparisonOutcome.IMPROVED, ComparisonOutcome.EQUAL)

_OFF = (*NO_COMPRESSION, *NO_ADASUM)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")

HISTORY_SCHEMA_VERSION = 1


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


def write_values(
    values: Sequence[tuple[tuple[str, ...], FrameRow, str, str]], stream: IO[str]
) -> None:
    """Write ``time`` (UTC), ``commit``, ``run`` and a column for each metric of each cell.

    Values are in the units of their tables, empty where unknown.

    Args:
        values: What orders the lines, with time, commit and name of the run; a row with a cell and
            its metric; the unit of the metric; and the column of the row that holds it.
        stream: Where to.
    """
    columns = list(dict.fromkeys(_column(row, unit) for _, row, unit, _ in values))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for run, row, unit, name in values:
        value = float(row[name])
        lines.setdefault(run, {})[_column(row, unit)] = "" if math.isnan(value) else repr(value)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["time", "commit", "run", *columns])
    for run in sorted(lines):
        writer.writerow([*run[1:], *(lines[run].get(column, "") for column in columns)])


def _column(row: FrameRow, unit: str) -> str:
    """Name of the column of a metric of a cell: ``resnet18_np2_horovod_step_time_ns``."""
    parts = [str(row[name]) for name in CELL_KEY if row[name] not in _OFF]
    suffix = {"ns": "_ns", "samples/s": "_per_s"}.get(unit, "")
    text = "_".join([parts[0], f"np{parts[1]}", *parts[2:], str(row["metric"])])
    return _NOT_IN_NAMES.sub("_", text) + suffix


def history_answer(found: History) -> Answer:
    """The verdict, a section for every cell, and what was left out."""
    rows = [row | {"metric": found.metric.name} for row in found.rows.to_dict("records")]
    run = ("time", "time", "commit", "run")
    values = [
        (tuple(str(row[name]) for name in run), row, found.metric.unit, "value") for row in rows
    ]
    return Answer(
        partial(_page, found),
        partial(_history_object, found),
        {"csv": partial(write_values, values)},
    )


def _page(found: History) -> Page:
    labels = [cell_label(row) for row in found.rows.to_dict("records")]
    cells = (
        _section(label, found, [other == label for other in labels])
        for label in dict.fromkeys(labels)
    )
    return Page((Section(verdict=found.sentence), *cells), notes=found.notes)


def _history_object(found: History) -> JsonObject:
    """Verdict, metric, rows of HISTORY, notes."""
    return {
        "schema_version": HISTORY_SCHEMA_VERSION,
        "sentence": found.sentence,
        "metric": found.metric.name,
        "unit": found.metric.unit,
        "history": json_rows(found.rows),
        "notes": list(found.notes),
    }


def _section(label: str, found: History, chosen: list[bool]) -> Section:
    metric = found.metric
    rows = found.rows[chosen].to_dict("records")
    return Section(
        label,
        heads=(
            *(Head(name, is_text=True) for name in ("time", "run", "commit")),
            Head(f"{metric.title} (95 % CI)"),
            Head("change", is_outcome=True),
        ),
        rows=tuple(
            (
                str(row["time"])[:16].replace("T", " "),
                str(row["run"]),
                str(row["commit"])[:9],
                units.interval_of_unit(row["value"], row["low"], row["high"], metric.unit),
                change_at(row, metric),
            )
            for row in rows
        ),
        tones=tuple(_tone(row, metric.worse) for row in rows),
    )


def _tone(row: FrameRow, worse: int) -> Tone:
    if not row["is_change"]:
        return "caution" if row["is_suspected"] else ""
    return "bad" if worse * float(row["change"]) > 0 else "good"
