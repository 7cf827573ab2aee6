"""One file on its page: what it says, in a terminal and as JSON.

Tested in ``tests/cli/test_analyze_files.py``.
"""

from rich.console import Console
from rich.text import Text

from hvdprof import units
from hvdprof.model.file_page import Fact, FilePage
from hvdprof.report.json_values import JsonObject, json_value
from hvdprof.report.terminal.hanging_text import print_hanging, print_verdict


def print_page(console: Console, page: FilePage) -> None:
    """Print the verdict, the file that it is on, its facts and what it does not answer."""
    print_verdict(console, "", page.verdict, page.caveat)
    heading = Text(page.file, style="bold cyan")
    heading.append(f"  {page.kind}, {units.byte_size(page.size_bytes)}", style="not bold default")
    console.print(heading, soft_wrap=True)
    width = max((len(fact.label) for fact in page.facts), default=0)
    for fact in (fact for fact in page.facts if fact.label):
        for number, line in enumerate(fact_text(fact).splitlines()):
            label = "" if number else fact.label
            print_hanging(console, f"  {label.ljust(width)}  ", line)
    if page.left_out:
        print_hanging(console, "  ", "Left out: see Warnings.")
    elif not page.facts:
        print_hanging(console, "  ", "No content that hvdprof reads.")
    if page.unanswered:
        console.print(Text("  Not in this file", style="bold"))
    for open_question in page.unanswered:
        question = open_question.question
        print_hanging(console, "    ", f"{question[0].upper()}{question[1:]}.")
        console.print(Text(f"      {open_question.command}", style="cyan"), soft_wrap=True)


def fact_text(fact: Fact) -> str:
    """The value of a fact with its unit."""
    value = fact.text or fact.value
    if value is None:
        return units.MISSING
    if isinstance(value, str):
        return value
    return units.of_unit(value, fact.unit)


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
