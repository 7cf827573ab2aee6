"""The texts of a file's page, the same in the terminal, in documents and on the dashboard."""

from dataclasses import dataclass

from hvdprof import units
from hvdprof.model.file_page import Fact, FilePage

NOT_IN_FILE = "Not in this file"
"""The heading of the questions that a file does not answer."""


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
