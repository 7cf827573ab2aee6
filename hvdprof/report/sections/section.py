"""What a page of any result is made of, before a format draws it."""

from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from hvdprof.model.glossary import GLOSSARY
from hvdprof.model.tables.finding_tables import FINDINGS

Tone = Literal["", "dim", "good", "caution", "bad"]
"""How a row is meant; drawn as a colour."""

_DEFINITIONS = {term.name: term.definition for term in GLOSSARY}


@dataclass(frozen=True, slots=True)
class Head:
    """A column: its name, and whether it holds words instead of numbers.

    A line break in the name is one in a terminal only. ``is_detail`` columns are in documents, not
    in a terminal. A column of outcomes has the tone of its row, which is otherwise of all columns.
    """

    name: str
    is_text: bool = False
    is_detail: bool = False
    is_outcome: bool = False

    @property
    def definition(self) -> str:
        """What the glossary says of the name; empty where it is none of its terms."""
        return _DEFINITIONS.get(self.name.replace("\n", " "), "").replace("`", "")


@dataclass(frozen=True, slots=True)
class Action:
    """What to do: a word before it, a sentence, and a command that stays whole."""

    label: str = ""
    sentence: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One section as texts; what is empty is not drawn.

    Attributes:
        title: The heading.
        detail: What of the run it is about, beside the heading.
        caption: How the rows were measured, above them.
        heads: One per column.
        rows: One text per column each; what stands below a line break is of the first line, such
            as its interval.
        sentences: What follows from the rows; commands in backticks.
        note: What the columns mean, below them.
        verdict: What is found, above the heading.
        is_verdict_whole: Whether it stays on one line of a terminal, for scripts that read it.
        caveat: What limits the verdict.
        actions: What follows from the verdict.
        tones: One per row, where they have any.
        is_warning: Whether the sentences are what went wrong.
    """

    title: str = ""
    detail: str = ""
    caption: str = ""
    heads: tuple[Head, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()
    note: str = ""
    verdict: str = ""
    is_verdict_whole: bool = False
    caveat: str = ""
    actions: tuple[Action, ...] = ()
    tones: tuple[Tone, ...] = ()
    is_warning: bool = False

    @property
    def has_heads(self) -> bool:
        """Whether its columns have names."""
        return any(head.name for head in self.heads)


@dataclass(frozen=True, slots=True)
class Page:
    """All that is said of one result: sections, rows of FINDINGS, and notes on what is left out."""

    sections: tuple[Section, ...]
    findings: pd.DataFrame = field(default_factory=FINDINGS.empty)
    notes: tuple[str, ...] = ()


def sections_of_notes(notes: tuple[str, ...]) -> tuple[Section, ...]:
    """The section on what was left out; none without notes."""
    return (Section("Warnings", sentences=notes, is_warning=True),) if notes else ()
