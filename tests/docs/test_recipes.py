"""The recipes of docs/architecture.md, each followed once in a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.places import DOCS, ROOT

PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
MOST_FILES = 6


def recipe(title: str) -> str:
    """The text of a recipe, up to the next heading."""
    return re.split(r"^##", PAGE.partition(f"### {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def copy_of_package(folder: Path) -> Path:
    """The package in a folder of its own; dashboards and models stay links."""
    shutil.copytree(
        ROOT / "hvdprof",
        folder / "hvdprof",
        symlinks=True,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in ("dashboards", "bench_models"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.parametrize("title", re.findall(r"^### (Add a .*)$", PAGE, re.MULTILINE))
def test_every_recipe_touches_few_files_that_exist(title: str) -> None:
    steps = re.findall(r"^\d+\. (.*(?:\n {3}.*)*)", recipe(title), re.MULTILINE)
    assert 0 < len(steps) <= MOST_FILES
    for step in steps:
        places = re.findall(r"`(\w[\w.]*/(?:[\w./]*(?:\.py|\.md|/))?)`", step)
        for place in places:
            assert (ROOT / place).exists() or (ROOT / "hvdprof" / place).exists(), place


def test_a_rate_format_that_is_added_as_the_recipe_says_is_read(tmp_path: Path) -> None:
    (entry,) = re.findall(r"```python\n(.*?)```", recipe("Add a rate format"), re.DOTALL)
    folder = copy_of_package(tmp_path)
    formats = folder / "hvdprof" / "ingest" / "rates" / "formats.py"
    declared, opening, rest = formats.read_text("utf-8").partition(
        "RATE_FORMATS: tuple[RateFormat, ...] = (\n"
    )
    formats.write_text(f"{declared}{opening}{entry},{rest}", encoding="utf-8")
    lines = (
        f"Mytrainer step {n}: {rate} samples/s, data 0.1 s of 0.5 s\n"
        for n, rate in ((1, 10.0), (2, 256.0), (3, 256.0))
    )
    (tmp_path / "job.log").write_text("".join(lines), encoding="utf-8")
    shown = subprocess.run(
        [sys.executable, "-m", "hvdprof", "analyze", "job.log"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "NO_COLOR": "1"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "256 samples/s of all ranks together (Mytrainer, median of 2 lines" in shown
    assert "128 samples per step; 20.0 % of the step time is data wait" in shown
