"""Write the pages of the manual that repeat what the code declares; ``--check`` compares them.

``python docs/generate.py`` writes the pages of ``PAGES``; with ``--check`` it names the pages that
are out of date and ends with exit code 1.
"""

import argparse
import ast
import io
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

# The pages are those of the checkout that this file is in, not of the installed version.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from docs.ran_where import ran_table, ran_where
from hvdprof.analyze.pipeline import STEPS
from hvdprof.cli.main import build_app
from hvdprof.live.flat_figures import METRICS, Metric
from hvdprof.model.glossary import GLOSSARY, Term
from hvdprof.model.notes import NoteCode
from hvdprof.model.schema import Table
from hvdprof.model.table_catalogue import TABLES
from hvdprof.model.tables.finding_tables import LIVE_EVENTS
from hvdprof.model.tables.forecast_tables import FORECAST_TABLES
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.scaling_tables import LOSSES, SCALING
from hvdprof.report.answers.json_schema import json_schema
from hvdprof.report.json_values import write_json
from hvdprof.report.sections.run_sections import SECTIONS
from hvdprof.rundir.recording.recorder_codec import DeclaredKey, DeclaredKind, declared_kinds
from hvdprof.rundir.recording.recorder_format import RECORDER_SCHEMA_VERSION
from hvdprof.rundir.written_file import write_whole

DOCS = Path(__file__).parent
ROOT = DOCS.parent
WRITTEN_BY = "<!-- Written by docs/generate.py; change the code, not this page. -->"
PAGE_WIDTH = 100
ROOMS_BEGIN = "<!-- rooms begin: written by docs/generate.py from the package docstrings -->"
ROOMS_END = "<!-- rooms end -->"
LAYERS_BEGIN = "<!-- layers begin: written by docs/generate.py from pyproject.toml -->"
LAYERS_END = "<!-- layers end -->"
ANALYSES_BEGIN = "<!-- analyses begin: written by docs/generate.py from STEPS and SECTIONS -->"
ANALYSES_END = "<!-- analyses end -->"
METRICS_BEGIN = "<!-- metrics begin: written by docs/generate.py from METRICS -->"
METRICS_END = "<!-- metrics end -->"
RAN_BEGIN = "<!-- ran begin: written by docs/generate.py from the markers of the tests -->"
RAN_END = "<!-- ran end -->"
JSON_TYPES = {
    "category": "text",
    "str": "text",
    "int32": "whole number",
    "int64": "whole number",
    "Int64": "whole number or null",
    "float64": "number or null",
    "bool": "true or false",
}


def tables_page() -> str:
    """The manual of every table: one section per table, one row per column."""
    opening = _wrapped(
        "Every table of a run, a timeline or a log, with the dtype, unit and meaning of each "
        "column. `hvdprof sql`, `hvdprof convert` and the Python API use the same names."
    )
    conventions = _wrapped(
        "Times are int64 nanoseconds on rank 0's monotonic clock unless a column says otherwise; "
        "ratios are 0..1. Missing values stay missing: NA in `Int64`, NaN in `float64`. A run "
        "holds `segments`, `ranks`, `steps`, `arrivals` and `events`; its analysis holds "
        "`job_steps`, `launches`, `scaling`, `losses` and the tables below them. Why columns are "
        "stored as they are: [reading speed](../explain/performance.md#how-columns-are-stored). "
        "The last tables belong to forecasts; `hvdprof sql` and `hvdprof convert` do not list them."
    )
    commands = (
        "hvdprof sql RUN --tables\n"
        '$ hvdprof sql RUN "SELECT model, np, efficiency FROM scaling ORDER BY model, np"'
    )
    head = _head("Tables", opening, commands)
    return "\n".join([head, f"{conventions}\n", *map(_table_section, (*TABLES, *FORECAST_TABLES))])


def glossary_page() -> str:
    """Every term of reports and dashboard: one section per term."""
    opening = _wrapped(
        "The terms of reports, dashboard and documentation, each defined once with its formula or "
        "source. The command prints most of them:"
    )
    notation = _wrapped(
        "N is the number of ranks, T the step time, C the own work of a rank in a step, index 1 "
        "the baseline, w the samples per rank and step divided by those of the baseline."
    )
    head = _head("Glossary", opening, "hvdprof analyze RUN")
    return "\n".join([head, f"{notation}\n", *(_term_section(term) for term in GLOSSARY)])


def recorder_page() -> str:
    """The lines of a recorder file: one section per kind, one row per key."""
    opening = _wrapped(
        "Every line of a recorder file (`passes/<pass>/recorder/rank-<rank>.jsonl`) with its keys "
        "and units. A line is one JSON object; the command prints the first:"
    )
    meaning = _wrapped(
        f"Schema version {RECORDER_SCHEMA_VERSION}. `kind` is the first key of a line. Times are "
        "of the host's monotonic clock. [The run directory](run_directory.md#recorder-files) "
        "explains phases, waits and clocks."
    )
    head = _head("Recorder lines", opening, "head -1 RUN/passes/PASS/recorder/rank-0.jsonl")
    sections = [_kind_section(kind) for kind in declared_kinds()]
    return "\n".join([head, f"{meaning}\n", *sections])


def commands_page() -> str:
    """The ``--help`` of every command, in the order in which they are listed."""
    opening = _wrapped("Every command with all its options, as `--help` prints them.")
    command = get_command(build_app())
    if not isinstance(command, TyperGroup):
        raise TypeError("hvdprof has sub-commands")
    pages = [f"## hvdprof\n\n```\n{_help(command, 'hvdprof')}\n```\n"]
    for name, sub_command in command.commands.items():
        if not isinstance(sub_command, TyperCommand):
            raise TypeError(f"{name} is no command of typer")
        title = f"hvdprof {name}"
        pages.append(f"## {title}\n\n```\n{_help(sub_command, title)}\n```\n")
    return "\n".join([_head("Commands", opening, "hvdprof COMMAND --help"), *pages])


def architecture_page() -> str:
    """The page on the architecture, its packages, layers and analyses as they are now."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = "\n".join(["```", *rooms(), "```"])
    page = _replaced(page, ROOMS_BEGIN, ROOMS_END, tree)
    page = _replaced(page, LAYERS_BEGIN, LAYERS_END, "\n".join(layers()))
    return _replaced(page, ANALYSES_BEGIN, ANALYSES_END, "\n".join(analyses()))


def json_page() -> str:
    """The page on the JSON report, its rows of declared tables as they are declared."""
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    for table in (SCALING, LOSSES, LIVE_EVENTS):
        begin = f"<!-- {table.name} begin: written by docs/generate.py from the declared table -->"
        rows = [
            f"| `{column.name}` | {JSON_TYPES[column.dtype]} | {column.unit} | "
            f"{column.doc.replace('NaN', 'null')} |"
            for column in table.columns
        ]
        text = "\n".join(["| key | type | unit | what |", "|---|---|---|---|", *rows])
        page = _replaced(page, begin, f"<!-- {table.name} end -->", text)
    return page


def schema_file() -> str:
    """The JSON Schema of what ``analyze`` writes."""
    stream = io.StringIO()
    write_json(json_schema(), stream)
    return stream.getvalue()


def metrics_page() -> str:
    """The page on the metrics of a running job, its table as they are declared."""
    page = (ROOT / "docs" / "reference" / "watch_metrics.md").read_text(encoding="utf-8")
    rows = [
        f"| `{metric.name}` | {metric.kind} | {_shown_unit(metric)} | "
        f"{', '.join(f'`{label}`' for label in metric.labels)} | {metric.help} |"
        for metric in METRICS
    ]
    text = "\n".join(["| metric | type | unit | labels | what |", "|---|---|---|---|---|", *rows])
    return _replaced(page, METRICS_BEGIN, METRICS_END, text)


def launchers_page() -> str:
    """The page on launchers, its table of what was run where as the tests declare it."""
    page = (ROOT / "docs" / "howto" / "launchers.md").read_text(encoding="utf-8")
    return _replaced(page, RAN_BEGIN, RAN_END, ran_table(ran_where(ROOT / "tests")))


def rooms() -> Iterator[str]:
    """One line per package below ``hvdprof``: its place in the tree and its docstring's first."""
    yield "hvdprof/"
    for folder in sorted((ROOT / "hvdprof").iterdir()):
        yield from _packages(folder, depth=1)


def layers() -> Iterator[str]:
    """The contracts of import-linter as Markdown: layers from the top, then the other rules."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    stack = next(one for one in contracts if one["type"] == "layers")["layers"]
    for place, layer in enumerate(stack, start=1):
        names = ", ".join(f"`{name.strip()}`" for name in layer.split("|"))
        yield f"{place}. {names}"
    yield ""
    for contract in contracts:
        if contract["type"] != "layers":
            yield f"* {contract['name']}"


def analyses() -> Iterator[str]:
    """One row per step of the analysis: its question, tables, number of rules, and page."""
    yield "| question | tables | rules | page |"
    yield "|---|---|---|---|"
    shown = {section.table.name for section in SECTIONS}
    for step in STEPS:
        names = ", ".join(
            f"**`{table.name}`**" if table.name in shown else f"`{table.name}`"
            for table in step.fills
        )
        page = f"[{Path(step.page).stem}]({step.page})" if step.page else ""
        yield f"| {step.question} | {names} | {len(step.rules) or ''} | {page} |"


PAGES: tuple[tuple[str, Callable[[], str]], ...] = (
    ("reference/tables.md", tables_page),
    ("reference/commands.md", commands_page),
    ("reference/glossary.md", glossary_page),
    ("reference/recorder_lines.md", recorder_page),
    ("reference/json.md", json_page),
    ("reference/analysis.schema.json", schema_file),
    ("reference/watch_metrics.md", metrics_page),
    ("howto/launchers.md", launchers_page),
    ("architecture.md", architecture_page),
)


def main() -> int:
    """Write the pages, or compare them with the files."""
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


def _head(title: str, opening: str, commands: str) -> str:
    return f"# {title}\n\n{WRITTEN_BY}\n\n{opening}\n\n```console\n$ {commands}\n```\n"


def _table_section(table: Table) -> str:
    rows = [
        f"| `{column.name}` | {column.dtype} | {column.unit or '-'} | {column.doc} |"
        for column in table.columns
    ]
    heading = f"## {table.name}\n\n{_wrapped(table.doc)}\n"
    table_of = ["| column | dtype | unit | what |", "|---|---|---|---|", *rows, ""]
    codes = [f"| `{code}` | {code.doc} |" for code in NoteCode] if table is NOTES else []
    return "\n".join(
        [heading, *table_of, *(["| code | what |", "|---|---|", *codes, ""] if codes else [])]
    )


def _shown_unit(metric: Metric) -> str:
    """A unit of UCUM without the braces of what is counted."""
    if metric.unit == "1":
        return "ratio" if metric.name.endswith("_ratio") else "0 or 1"
    return metric.unit.replace("{", "").replace("}", "")


def _kind_section(kind: DeclaredKind) -> str:
    rows = [f"| {_key_cell(key)} | {key.unit or '-'} | {key.doc} |" for key in kind.keys]
    heading = f"## {kind.name}\n\n{_wrapped(kind.doc)}\n"
    return "\n".join([heading, "| key | unit | what |", "|---|---|---|", *rows, ""])


def _key_cell(key: DeclaredKey) -> str:
    return f"`{key.name}`" + (" (optional)" if key.is_optional else "")


def _term_section(term: Term) -> str:
    formula = f"\n    {term.formula}\n" if term.formula else ""
    return f"## {term.name}\n\n{_wrapped(term.definition)}\n{formula}"


def _packages(folder: Path, depth: int) -> Iterator[str]:
    start = folder / "__init__.py"
    if not start.is_file():
        return
    text = ast.get_docstring(ast.parse(start.read_text(encoding="utf-8"))) or ""
    name = "  " * depth + f"{folder.name}/"
    yield f"{name:<22}{text.splitlines()[0]}".replace("``", "`")
    for child in sorted(folder.iterdir()):
        yield from _packages(child, depth + 1)


def _replaced(page: str, begin: str, end: str, text: str) -> str:
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no place between {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _help(command: TyperCommand | TyperGroup, title: str) -> str:
    # Plain text: the boxes drawn for a terminal depend on its width and on versions.
    command.rich_markup_mode = None
    context = command.context_class(
        command, info_name=title, terminal_width=PAGE_WIDTH, max_content_width=PAGE_WIDTH
    )
    lines = command.get_help(context).strip().splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
