"""What the pages for contributors name is there."""

import re
from pathlib import Path

import pytest

from tests.builders.places import ROOT

PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "tests/builders/README.md")
_PATH = re.compile(r"`([\w.*-]+/[\w./*-]*|[\w]+\.(?:py|md|toml|yaml))`")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def exists(name: str) -> bool:
    """Whether a path of the repository, or a file of that name in any of its folders, exists."""
    folders = (ROOT, ROOT / "hvdprof", *sorted((ROOT / "hvdprof").glob("*/")), ROOT / "tests")
    if any(list(folder.glob(name)) for folder in folders):
        return True
    return "/" not in name and bool(
        [*(ROOT / "hvdprof").rglob(name), *(ROOT / "tests").rglob(name)]
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_path_on_the_page_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in _PATH.findall(text) if not exists(name)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_the_page_leads_somewhere(page: str) -> None:
    path = ROOT / page
    links = _LINK.findall(path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_target_of_make_on_the_page_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = re.findall(r"make ([a-z][a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert set(named) - {"text"} <= set(targets)


def test_the_page_and_the_help_of_make_state_the_same_durations() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    stated = re.findall(r"^\| `make (test\S*)` \|[^|]*\| (?!- )(\S+)[^|]*\|[^|]*\|$", page, re.M)
    helped = dict(re.findall(r"^(test[a-z-]*):.*## .*?(\S+) minutes? ", makefile, re.M))
    assert dict(stated) == helped
    assert set(helped) == {"test", "test-changed", "test-fast"}


def test_the_index_lists_every_helper_of_the_tests_once() -> None:
    index = (ROOT / "tests/builders/README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| \S.+ \|$", index, re.MULTILINE)
    assert sorted(listed) == sorted(
        path.stem for path in Path(ROOT / "tests/builders").glob("*.py")
    )


def test_every_list_on_the_page_is_in_the_file_that_is_named_for_it() -> None:
    pages = ("CONTRIBUTING.md", "docs/architecture.md")
    text = re.sub(r"\s+", " ", "".join((ROOT / page).read_text("utf-8") for page in pages))
    # `NAME` of `file`, `NAME` in `file`: what stands between them is no sentence's end.
    named = re.findall(r"`(_?[A-Z][A-Za-z_]{3,})` (?:of|in) `([\w/.-]+\.py)`", text)
    # The recipes of architecture.md name the file first: `FILE`: its name in `NAME`.
    named += [pair[::-1] for pair in re.findall(r"`([\w/.-]+\.py)`: [^.;`]*`([A-Z_]{3,})`", text)]
    assert len(named) >= 8
    missing = []
    for name, path in named:
        file = ROOT / path if (ROOT / path).exists() else ROOT / "hvdprof" / path
        if "/" not in path:
            (file,) = (ROOT / "hvdprof").rglob(path)
        source = file.read_text(encoding="utf-8")
        if not re.search(rf"^(?:class )?{name}\b", source, re.MULTILINE):
            missing.append(f"{name} of {path}")
    assert missing == []
