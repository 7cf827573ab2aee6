import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from typer.core import TyperGroup
from typer.main import get_command

from hvdprof.cli.main import COMMANDS, build_app
from tests.builders.places import ROOT

DOCS = ROOT / "docs"
MANUAL = sorted(DOCS.rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *MANUAL]
MANUAL_AND_README = [ROOT / "README.md", *(page for page in MANUAL if page.name != "changelog.md")]
NAMES = COMMANDS
SCRIPTS = {"--epochs", "--lau"}
"""Options of scripts, and a word that a shell completes."""
COUNTS = {"--np", "-np", "--min-np"}
WIDTH = 100
NOT_OURS = {"runs", "passes", "build", ".venv-tensorflow", ".venv-frameworks"}
"""Folders that a page names and that are not in the repository."""
OF_OTHERS = {"all_reduce_bench.py", "pytorch_mnist.py", "reporting.py", "setup.py", "straggler.py"}
"""Python files of other projects that a page names."""
TOPS = ("hvdprof", "dashboards", "bench_models", "tests", "benchmarks", "docs")
OPENING_LINES = 20
MEASURED = re.compile(r"<!-- (\w+) begin -->.*?<!-- \1 end -->", re.DOTALL)
"""Tables that a benchmark writes into a page, with its own line breaks."""


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Number and text of the lines that a reader reads as text: no code, tables, pictures."""
    is_code = False
    text = MEASURED.sub(lambda found: "\n" * found[0].count("\n"), page.read_text(encoding="utf-8"))
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not re.match(r"\||!\[|<!--|#| {4}(?!\*)", line):
            yield number, line


def test_every_command_and_make_target_on_a_page_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    own_targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    unknown = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        commands = re.findall(r"(?:`|\$ )(?:\.venv/bin/)?hvdprof ([a-z][a-z-]+)(?![\w:-])", text)
        targets = re.findall(r"(?:`|\$ )make ([a-z][a-z-]*)", text)
        missing = (set(commands) - {*NAMES, "help"}) | (set(targets) - own_targets)
        unknown += [f"{page.name}: {name}" for name in sorted(missing)]
    assert unknown == []


def commands(page: Path) -> Iterator[tuple[list[str], list[str]]]:
    """The words of each command of hvdprof on a page, and those of the script in it."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n>", "").splitlines()]
    inline = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in [*lines, *(" ".join(code.split()) for code in inline)]:
        found = re.search(rf"(?:^|\s)hvdprof ((?:{'|'.join(NAMES)}) .*)", line)
        if found is None:
            continue
        with contextlib.suppress(ValueError):  # A quote that ends on the next line.
            words = shlex.split(re.split(r" # | \\?\| |;| &&? | > ", found[1])[0])
            end = words.index("--") if "--" in words else len(words)
            yield words[:end], words[end + 1 :]


def test_every_command_on_a_page_has_options_that_exist_and_a_number_of_ranks() -> None:
    group = get_command(build_app())
    assert isinstance(group, TyperGroup)
    known = {
        name: {"--help"}.union(*(option.opts + option.secondary_opts for option in command.params))
        for name, command in group.commands.items()
    }
    faults, seen = [], 0
    for page in MANUAL_AND_README:
        for (name, *words), script in commands(page):
            options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            seen += len(options)
            faults += [
                f"{page.name}: {name} {option}" for option in options - known[name] - SCRIPTS
            ]
            if name in ("run", "tune") and script[:1] == ["python"] and not options & COUNTS:
                faults.append(f"{page.name}: {name} without a number of ranks")
    assert faults == []
    assert seen > 300


def test_every_link_between_pages_leads_somewhere() -> None:
    missing = [
        f"{page.name}: {link}"
        for page in PAGES
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not link.startswith("http") and not (page.parent / link).exists()
    ]
    assert missing == []


def test_the_changelog_has_no_link_that_its_page_of_the_site_would_break() -> None:
    # The site shows it below docs/reference, where paths from the root lead nowhere.
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https?:)", text) == []


def test_prose_is_wrapped() -> None:
    # A word longer than a line, such as a path in code, cannot be wrapped.
    too_long = [
        f"{page.name}:{number}: {line}"
        for page in PAGES
        for number, line in prose(page)
        if len(line) > WIDTH and " " in re.sub(r"`[^`]*`", "code", line.strip())
    ]
    assert too_long == []


def _opening_fault(page: Path) -> str:
    lines = page.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines[1:OPENING_LINES] if line and not line.startswith("<!--")]
    fences = [place for place, line in enumerate(texts) if line.startswith("```")]
    if not lines[0].startswith("# "):
        return "no title"
    if not re.match(r"[A-Z`h]", texts[0]):
        return f"no purpose: {texts[0]}"
    if not fences:
        return f"no command in the first {OPENING_LINES} lines"
    has_heading = any(line.startswith("#") for line in texts[: fences[0]])
    return "a heading before the first command" if has_heading else ""


def test_a_page_begins_with_its_purpose_and_a_command() -> None:
    faults = {page.name: _opening_fault(page) for page in MANUAL if page.name != "changelog.md"}
    assert {name: fault for name, fault in faults.items() if fault} == {}


def test_the_navigation_names_every_page_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"(\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in MANUAL)


def test_every_module_and_folder_named_on_a_page_exists() -> None:
    tops = ("", "hvdprof", "hvdprof/analyze", "hvdprof/ingest/timeline")
    missing = [
        f"{page.name}: {path}"
        for page in PAGES
        for path in re.findall(r"`((?:[\w.]+/)+(?:\w+\.py)?)`", page.read_text(encoding="utf-8"))
        if path.split("/")[0] not in NOT_OURS
        and not any((ROOT / top / path).exists() for top in tops)
    ]
    ours = {path.name for top in TOPS for path in (ROOT / top).rglob("*.py")}
    missing += [
        f"{page.name}: {name}"
        for page in MANUAL
        for name in re.findall(r"`(\w+\.py)`", page.read_text(encoding="utf-8"))
        if name not in ours | OF_OTHERS and page.name != "changelog.md"
    ]
    assert missing == []


def test_every_command_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`hvdprof {name}" not in readme] == []
