"""Write the pages of the manual that say what the code says; ``--check`` fails where they differ.

``python docs/generate.py`` writes the pages of ``PAGES``; with ``--check`` it names the pages that
are out of date and ends with exit code 1.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.main import get_command

from hvdprof.cli.main import build_app
from hvdprof.model.glossary import GLOSSARY, Term
from hvdprof.model.schema import Table
from hvdprof.model.table_catalogue import TABLES
from hvdprof.rundir.whole_file import write_whole

DOCS = Path(__file__).parent
WRITTEN_BY = "<!-- Written by docs/generate.py; change the code, not this page. -->\n"
HELP_WIDTH = 100
STORAGE = """\
## How the columns are held

Text and the names of categories are Arrow strings, files in between are Arrow's Parquet, and
`hvdprof sql` reads the frames through Arrow. Numbers are numpy's. Whole frames of Arrow columns
were tried on 1,000,000 synthetic rows of `events` and not taken (pandas 3.1, pyarrow 26, medians
of five interleaved runs on 2 shared cores):

| | as it is | all Arrow |
|---|---|---|
| memory | 69 MB | 68 MB |
| rows of one phase | 51 ms | 76 ms |
| every third row | 38 ms | 67 ms |
| bytes summed by step | 50 ms | 79 ms |
| bits a nanosecond of each row | 16 ms | 100 ms |
| sorted by rank and start | 890 ms | 860 ms |
| median length by tensor | 137 ms | 72 ms |
| opened from Parquet | 610 ms | 410 ms |

Memory is the same, because categories are what saves it; two things are faster, most are slower.
What decided is that pandas cannot sort a dictionary column of Arrow, and has no `.cat` for it:
both are done with names throughout. Missing values stay missing either way. Arrow refuses a sum
of two columns that overflows where numpy wraps around, but nanoseconds reach that after 292 years.
"""


def tables_page() -> str:
    """The manual of every table: one section a table, one row a column."""
    sections = [_table_section(table) for table in TABLES]
    opening = (
        "Times are int64 nanoseconds on rank 0's monotonic clock unless a column says otherwise; "
        "ratios are 0..1.\nWhat is missing stays missing: NA in `Int64`, NaN in `float64`. A run "
        "holds `segments`, `ranks`, `steps`,\n`arrivals` and `events`; its analysis holds "
        "`job_steps`, `launches`, `scaling` and `losses`.\n"
    )
    return "\n".join([f"# Tables\n\n{WRITTEN_BY}", opening, STORAGE, *sections])


def glossary_page() -> str:
    """Every term of reports and dashboard: one section per term."""
    opening = (
        "The terms of reports, dashboard and documentation. N is the number of ranks, T the step "
        "time, C the\nown work of a rank in a step, index 1 the baseline, w the samples per rank "
        "and step divided by those\nof the baseline.\n"
    )
    sections = [_term_section(term) for term in GLOSSARY]
    return "\n".join([f"# Glossary\n\n{WRITTEN_BY}", opening, *sections])


def commands_page() -> str:
    """The ``--help`` of every command, in the order in which they are listed."""
    command = get_command(build_app())
    pages = [f"## hvdprof\n\n```\n{_help(command, 'hvdprof')}\n```\n"]
    for name, sub_command in getattr(command, "commands", {}).items():
        title = f"hvdprof {name}"
        pages.append(f"## {title}\n\n```\n{_help(sub_command, title)}\n```\n")
    return "\n".join([f"# Commands\n\n{WRITTEN_BY}", *pages])


PAGES: tuple[tuple[str, Callable[[], str]], ...] = (
    ("reference/tables.md", tables_page),
    ("reference/commands.md", commands_page),
    ("reference/glossary.md", glossary_page),
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


def _term_section(term: Term) -> str:
    formula = f"\n    {term.formula}\n" if term.formula else ""
    return f"## {term.name}\n\n{term.definition}\n{formula}"


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
