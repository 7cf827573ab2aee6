"""One file on its page: what it says, as sections and as JSON.

Tested in ``tests/cli/test_analyze_files.py``.
"""

from hvdprof.model.file_page import FilePage
from hvdprof.report.file_texts import NOT_IN_FILE, file_texts
from hvdprof.report.json_values import JsonObject, json_value
from hvdprof.report.sections.section import Action, Head, Section

_FACT = (Head("", is_text=True), Head("", is_text=True))


def file_sections(page: FilePage) -> tuple[Section, ...]:
    """The verdict, the file that it is on, its facts and what it does not answer."""
    texts = file_texts(page)
    of_file = Section(
        texts.file,
        texts.about,
        heads=_FACT,
        rows=texts.facts,
        note=texts.note,
        verdict=texts.verdict,
        caveat=texts.caveat,
    )
    asked = tuple(Action("", question, command) for question, command in texts.unanswered)
    return (of_file, *([Section(NOT_IN_FILE, actions=asked)] if asked else []))


def page_json(page: FilePage) -> JsonObject:
    """The page as plain dictionaries, lists, texts, numbers and ``None``."""
    return {
        "file": page.file,
        "kind": page.kind,
        "size_bytes": page.size_bytes,
        "verdict": page.verdict or None,
        "caveat": page.caveat or None,
        "left_out": page.left_out or None,
        "facts": {fact.name: json_value(fact.value) for fact in page.facts},
        "unanswered": [
            {"question": open_.question, "command": open_.command} for open_ in page.unanswered
        ],
    }
