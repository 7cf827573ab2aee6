"""One file on its page: what it says, in a terminal and as JSON.

Tested in ``tests/cli/test_analyze_files.py``.
"""

from rich.console import Console
from rich.text import Text

from hvdprof.model.file_page import FilePage
from hvdprof.report.file_texts import NOT_IN_FILE, file_texts
from hvdprof.report.json_values import JsonObject, json_value
from hvdprof.report.terminal.hanging_text import print_hanging, print_verdict


def print_page(console: Console, page: FilePage) -> None:
    """Print the verdict, the file that it is on, its facts and what it does not answer."""
    texts = file_texts(page)
    print_verdict(console, "", texts.verdict, texts.caveat)
    heading = Text(texts.file, style="bold cyan")
    heading.append(f"  {texts.about}", style="not bold default")
    console.print(heading, soft_wrap=True)
    width = max((len(label) for label, _ in texts.facts), default=0)
    for label, value in texts.facts:
        for number, line in enumerate(value.splitlines()):
            lead = "" if number else label
            print_hanging(console, f"  {lead.ljust(width)}  ", line)
    if texts.note:
        print_hanging(console, "  ", texts.note)
    if texts.unanswered:
        console.print(Text(f"  {NOT_IN_FILE}", style="bold"))
    for question, command in texts.unanswered:
        print_hanging(console, "    ", question)
        console.print(Text(f"      {command}", style="cyan"), soft_wrap=True)


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
