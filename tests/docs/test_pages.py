import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hvdprof.cli.main import COMMANDS
from tests.builders.places import ROOT

DOCS = ROOT / "docs"
MANUAL = sorted(DOCS.rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *MANUAL]
NAMES = COMMANDS
WIDTH = 100
NOT_OURS = {"runs", "passes", "build", ".venv-tensorflow", ".venv-frameworks"}
"""Folders that a page names and that are not in the repository."""
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_make_target_on_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"(?:`|\$ )(?:\.venv/bin/)?hvdprof ([a-z][a-z-]+)(?![\w:-])", text)
    assert set(commands) <= set(NAMES)
    targets = re.findall(r"(?:`|\$ )make ([a-z][a-z-]*)", text)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith("http")]
    missing = [link for link in local if not (page.parent / link).exists()]
    assert missing == []


def test_the_changelog_has_no_link_that_its_page_of_the_site_would_break() -> None:
    # The site shows it below docs/reference, where paths from the root lead nowhere.
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https?:)", text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_is_wrapped(page: Path) -> None:
    # A word longer than a line, such as a path in code, cannot be wrapped.
    too_long = [
        f"{number}: {line}"
        for number, line in prose(page)
        if len(line) > WIDTH and " " in re.sub(r"`[^`]*`", "code", line.strip())
    ]
    assert too_long == []


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: page.name)
def test_a_page_begins_with_its_purpose_and_a_command(page: Path) -> None:
    if page.name == "changelog.md":
        return
    lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    texts = [line for line in lines[1:OPENING_LINES] if line and not line.startswith("<!--")]
    assert re.match(r"[A-Z`h]", texts[0])
    fences = [place for place, line in enumerate(texts) if line.startswith("```")]
    assert fences, f"no command in the first {OPENING_LINES} lines"
    assert not any(line.startswith("#") for line in texts[: fences[0]])


def test_the_navigation_names_every_page_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"(\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in MANUAL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_and_folder_named_on_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:[\w.]+/)+(?:\w+\.py)?)`", text)
    tops = ("", "hvdprof", "hvdprof/analyze", "hvdprof/ingest/timeline")
    missing = [
        path
        for path in named
        if path.split("/")[0] not in NOT_OURS
        and not any((ROOT / top / path).exists() for top in tops)
    ]
    assert missing == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"`hvdprof {name}" in (ROOT / "README.md").read_text(encoding="utf-8")
