"""Write the pages of the manual that say what the code says; ``--check`` fails where they differ.

``python docs/generate.py`` writes docs/tables.md and docs/commands.md; with ``--check`` it names
the pages that are out of date and ends with exit code 1.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.main import get_command

from hvdprof.cli.main import build_app
from hvdprof.model.catalogue import TABLES
from hvdprof.model.schema import Table
from hvdprof.rundir.whole_file import write_whole

DOCS = Path(__file__).parent
WRITTEN_BY = "<!-- Written by docs/generate.py; change the code, not this page. -->\n"
HELP_WIDTH = 100


def tables_page() -> str:
    """The manual of every table: one section a table, one row a column."""
    sections = [_table_section(table) for table in TABLES]
    opening = (
        "Times are int64 nanoseconds on rank 0's monotonic clock unless a column says otherwise; "
        "ratios are 0..1.\nMissing numbers are NaN. A run holds `segments`, `ranks`, `steps`, "
        "`arrivals` and `events`; its analysis holds\n`job_steps`, `launches`, `scaling` and "
        "`losses`.\n"
    )
    return "\n".join([f"# Tables\n\n{WRITTEN_BY}", opening, *sections])


def commands_page() -> str:
    """The ``--help`` of every command, in the order in which they are listed."""
    command = get_command(build_app())
    pages = [f"## hvdprof\n\n```\n{_help(command, 'hvdprof')}\n```\n"]
    for name, sub_command in getattr(command, "commands", {}).items():
        title = f"hvdprof {name}"
        pages.append(f"## {title}\n\n```\n{_help(sub_command, title)}\n```\n")
    return "\n".join([f"# Commands\n\n{WRITTEN_BY}", *pages])


PAGES: tuple[tuple[str, Callable[[], str]], ...] = (
    ("tables.md", tables_page),
    ("commands.md", commands_page),
)


def main() -> int:
    """Write the pages, or compare them with what stands there."""
    parser = argparse.ArgumentParser(description="Write the generated pages of the manual.")
    parser.add_argument("--check", action="store_true", help="only compare")
    only_check = parser.parse_args().check
    stale = [name for name, page in PAGES if _text_of(DOCS / name) != page()]
    if not only_check:
        for name, page in PAGES:
            write_whole(DOCS / name, page())
        return 0
    for name in stale:
        sys.stderr.write(f"docs/{name} is out of date: run python docs/generate.py\n")
    return 1 if stale else 0


def _table_section(table: Table) -> str:
    rows = [
        f"| `{column.name}` | {column.dtype} | {column.unit or '-'} | {column.doc} |"
        for column in table.columns
    ]
    heading = f"## {table.name}\n\n{table.doc}\n"
    return "\n".join([heading, "| column | dtype | unit | what |", "|---|---|---|---|", *rows, ""])


def _help(command: Any, title: str) -> str:
    # Plain text: the boxes drawn for a terminal depend on its width and on versions.
    command.rich_markup_mode = None
    context = command.context_class(
        command, info_name=title, terminal_width=HELP_WIDTH, max_content_width=HELP_WIDTH
    )
    lines = command.get_help(context).strip().splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
