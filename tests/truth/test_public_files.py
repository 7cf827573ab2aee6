"""hvdprof's claims on public files against an independent parse of the same files.

The files may not be copied into the project. They lie in the folder that HVDPROF_TRUTH_FILES names,
one text file each with the names of docs/reading_truth.md; without it these tests are skipped.
"""

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hvdprof.cli.main import build_app
from tests.builders.places import ROOT
from tests.truth.claims import differences
from tests.truth.expected import EXPECTED

FOLDER = Path(os.environ.get("HVDPROF_TRUTH_FILES", "-"))
PAGE = (ROOT / "docs" / "reading_truth.md").read_text(encoding="utf-8")
VERDICTS = ("right", "incomplete", "misleading", "wrong")

needs_files = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="no folder of public files (HVDPROF_TRUTH_FILES)"
)


def listed() -> dict[str, tuple[str, str]]:
    """By name, the verdict before and after as the page states them."""
    rows = re.findall(r"^\| `([^`]+)` \|.*\| (\w+|-) \| (\w+) \|$", PAGE, re.MULTILINE)
    return {name: (before, after) for name, before, after in rows}


def text_of(name: str) -> str:
    path = FOLDER / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the folder of public files")
    result = CliRunner().invoke(build_app(), ["analyze", str(path)])
    stderr = str(result.exception or "")
    return " ".join(f"{result.output} {stderr}".split())


@needs_files
@pytest.mark.parametrize("name", EXPECTED)
def test_nothing_is_said_that_a_file_does_not_say(name: str) -> None:
    text = text_of(name)
    assert [phrase for phrase in EXPECTED[name].never if phrase in text] == []
    assert [one for one in differences(FOLDER / f"{name}.txt") if one.invented] == []


@needs_files
@pytest.mark.parametrize("name", [name for name, row in listed().items() if row[1] == "right"])
def test_a_file_that_counts_as_right_is_read_in_full(name: str) -> None:
    text = text_of(name)
    assert [phrase for phrase in EXPECTED[name].says if phrase not in text] == []
    assert differences(FOLDER / f"{name}.txt") == []


def test_the_page_lists_every_file_once() -> None:
    names = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert sorted(names) == sorted(EXPECTED)
    assert {verdict for row in listed().values() for verdict in row} <= {"-", *VERDICTS}


def test_the_counts_of_the_page_are_those_of_its_rows() -> None:
    for section in PAGE.split("\n## ")[1:]:
        rows = re.findall(r"^\| `[^`]+` \|.*\| (\w+) \|$", section, re.MULTILINE)
        stated = re.search(
            r"After: (\d+) right, (\d+) incomplete,\s+(\d+) misleading, (\d+) wrong", section
        )
        if rows:
            assert stated is not None, section.splitlines()[0]
            numbers = [int(number) for number in stated.groups()]
            assert numbers == [rows.count(verdict) for verdict in VERDICTS]
