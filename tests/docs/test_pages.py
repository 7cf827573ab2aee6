import re
from pathlib import Path

import pytest

from hvdprof.cli.main import COMMANDS
from tests.builders.places import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [name for name, _ in COMMANDS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_make_target_on_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"`(?:\.venv/bin/)?hvdprof ([a-z][a-z-]+)(?![\w:-])", text)
    assert set(commands) <= set(NAMES)
    targets = re.findall(r"`make ([a-z][a-z-]*)", text)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith("http")]
    missing = [link for link in local if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"`hvdprof {name}" in (ROOT / "README.md").read_text(encoding="utf-8")
