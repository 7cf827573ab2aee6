"""Texts of findings and files, the same everywhere, and where a sentence of them ends."""

import math
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.model.file_page import Fact, FilePage

_SMALLEST_GAIN = 0.0005
"""A smaller gain would read 0.0 %."""

NOT_IN_FILE = "Not in this file"
"""The heading of the questions that a file does not answer."""

_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z])")


@dataclass(frozen=True, slots=True)
class FindingTexts:
    """A finding as texts; ``cost``, ``gain``, ``quote`` and ``action`` may be empty.

    Attributes:
        severity: error, warning or note.
        confidence: certain, likely or possible.
        title: The problem as a noun phrase.
        evidence: What was measured, in sentences.
        cost: ``Costs 4.02 ms per step (16.8 % of step time)``, or outside the steps
            ``Costs 16.8 % of the recorded time``.
        gain: ``Potential gain if fixed: up to 16.8 % of step time``.
        quote: The log line or setting behind its file and line.
        action: How to fix it.
        command: The first command or setting of the action, to be copied; empty without one.
        short_cost: ``16.8 % of the step``, or ``16.8 % of the recorded time``; empty where unknown.
    """

    severity: str
    confidence: str
    title: str
    evidence: str
    cost: str
    gain: str
    quote: str
    action: str
    command: str = ""
    short_cost: str = ""

    @property
    def weight(self) -> str:
        """``warning``, or where it is not certain ``warning, likely``."""
        parts = (self.severity, "" if self.confidence == "certain" else self.confidence)
        return ", ".join(part for part in parts if part)

    @property
    def figures(self) -> str:
        """Cost and potential gain as sentences; empty where neither is known."""
        return " ".join(f"{text}." for text in (self.cost, self.gain) if text)


def finding_texts(row: Mapping[Hashable, object]) -> FindingTexts:
    """The texts of a row of FINDINGS."""
    line = row["line"]
    place = f"{row['file']}:{line}" if isinstance(line, int) else ""
    return FindingTexts(
        severity=str(row["severity"]),
        confidence=str(row["confidence"]),
        title=str(row["title"]),
        evidence=str(row["evidence"]),
        cost=_cost(row),
        gain=_gain(row),
        quote=": ".join(text for text in (place, str(row["quote"])) if text),
        action=str(row["action"]),
        command=str(row["command"]),
        short_cost=_short_cost(row),
    )


def findings_texts(findings: pd.DataFrame) -> list[FindingTexts]:
    """The texts of rows of FINDINGS in their order."""
    return [finding_texts(row) for row in findings.to_dict("records")]


def _cost(row: Mapping[Hashable, object]) -> str:
    cost_ns, low, high = (_number(row[f"cost_{end}ns"]) for end in ("", "low_", "high_"))
    percent = _share(row, "cost_share")
    of_job = _number(row["job_share"])
    if not math.isnan(of_job):
        return f"Costs {_short_cost(row)}"
    if math.isnan(cost_ns):
        return percent and f"Costs {percent} of step time"
    of_step = percent and f" ({percent} of step time)"
    return f"Costs {units.milliseconds_within(cost_ns, low, high)} per step{of_step}"


def _short_cost(row: Mapping[Hashable, object]) -> str:
    of_job = _number(row["job_share"])
    if not math.isnan(of_job):
        return f"{units.percent(of_job)} of the recorded time"
    percent = _share(row, "cost_share")
    return percent and f"{percent} of the step"


def _gain(row: Mapping[Hashable, object]) -> str:
    if not _number(row["gain_share"]) >= _SMALLEST_GAIN:
        return ""
    return f"Potential gain if fixed: up to {_share(row, 'gain_share')} of step time"


def _share(row: Mapping[Hashable, object], name: str) -> str:
    """A share of the step with the digits of the cost's interval; empty where unknown."""
    cost_ns, low, high = (_number(row[f"cost_{end}ns"]) for end in ("", "low_", "high_"))
    share, of_cost = _number(row[name]), _number(row["cost_share"])
    if math.isnan(share):
        return ""
    step_ns = cost_ns / of_cost if of_cost else math.nan
    return units.percent_within(share, low / step_ns, high / step_ns)


def _number(value: object) -> float:
    return float(value) if isinstance(value, float) else float("nan")


@dataclass(frozen=True, slots=True)
class FileTexts:
    """A file as texts; ``verdict``, ``caveat`` and ``note`` may be empty.

    Attributes:
        verdict: The verdict on the file.
        caveat: What limits it.
        file: The name of the file.
        about: Kind and size.
        facts: Label and value of each fact that has a line of its own; a value may have several
            lines.
        note: Why there is no fact.
        unanswered: What the file does not answer, a sentence each, and the command that does.
    """

    verdict: str
    caveat: str
    file: str
    about: str
    facts: tuple[tuple[str, str], ...]
    note: str
    unanswered: tuple[tuple[str, str], ...]


def file_texts(page: FilePage) -> FileTexts:
    """The texts of a page."""
    return FileTexts(
        verdict=page.verdict,
        caveat=page.caveat,
        file=page.file,
        about=f"{page.kind}, {units.byte_size(page.size_bytes)}",
        facts=tuple((fact.label, _value(fact)) for fact in page.facts if fact.label),
        note=_note(page),
        unanswered=tuple((_sentence(asked.question), asked.command) for asked in page.unanswered),
    )


def _value(fact: Fact) -> str:
    """The value of a fact with its unit."""
    value = fact.text or fact.value
    if value is None:
        return units.MISSING
    return value if isinstance(value, str) else units.of_unit(value, fact.unit)


def _note(page: FilePage) -> str:
    if page.left_out:
        return "Left out: see Warnings."
    return "" if page.facts else "No content that hvdprof reads."


def _sentence(question: str) -> str:
    return f"{question[0].upper()}{question[1:]}."


def each_sentence(text: str) -> list[str]:
    """The sentences of a text; none of an empty one."""
    return _SENTENCE_END.split(text) if text else []


def first_clause(text: str) -> str:
    """The first sentence without its full stop."""
    return _SENTENCE_END.split(text)[0].rstrip(".")
