"""The manual of the JSON of files names what the code writes, and nothing else."""

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.report.answers.files import files_json
from tests.builders.nccl_log import call_line, job
from tests.builders.places import ROOT
from tests.builders.recorder_lines import recorder_lines
from tests.builders.run_directory import PassSpec
from tests.ingest.test_load_files import MIXED, TIMELINE

SECTION = (
    (ROOT / "docs" / "howto" / "reading.md")
    .read_text(encoding="utf-8")
    .split("## JSON of files\n", 1)[1]
    .split("\n## ", 1)[0]
)


def documented(heading: str) -> list[str]:
    part = SECTION if not heading else SECTION.split(f"\n### {heading}\n", 1)[1]
    return re.findall(r"^\| `(\w+)` ", part.split("\n### ", 1)[0], flags=re.MULTILINE)


@pytest.fixture
def written(tmp_path: Path) -> Mapping[str, object]:
    (tmp_path / "timeline.json").write_text(TIMELINE)
    (tmp_path / "job.out").write_text(MIXED)
    (tmp_path / "nccl.log").write_text("\n".join([*job("NET/Socket/0"), call_line(0, 8)]) + "\n")
    lines = [json.dumps(line) for line in recorder_lines(PassSpec(size=1), 0)]
    (tmp_path / "rank-0.jsonl").write_text("\n".join(lines) + "\n")
    return files_json(analyze_files(load_run(tmp_path)))


@pytest.mark.heavy
def test_the_keys_of_the_object_and_of_a_file(written: dict[str, list[dict[str, object]]]) -> None:
    assert list(written) == documented("")
    assert {tuple(page) for page in written["files"]} == {tuple(documented("files"))}
    assert len(written["files"]) == 4
    open_questions = [one for page in written["files"] for one in page["unanswered"]]  # type: ignore[attr-defined]
    assert {tuple(one) for one in open_questions} == {("question", "command")}


@pytest.mark.slow
def test_every_fact_that_is_written_is_on_the_page(
    written: dict[str, list[dict[str, dict[str, object]]]],
) -> None:
    facts = {name for page in written["files"] for name in page["facts"]}
    assert len(facts) > 30
    assert facts <= set(documented("facts"))


def facts_in_code() -> dict[str, str]:
    """The unit of every fact that is made anywhere in the analysis, by its name."""
    units = {}
    for path in (ROOT / "hvdprof" / "analyze").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Fact":
                name, unit = node.args[0], node.args[3] if len(node.args) > 3 else None
                assert isinstance(name, ast.Constant), path
                assert unit is None or isinstance(unit, ast.Constant), path
                units[str(name.value)] = "" if unit is None else str(unit.value)
    return units


@pytest.mark.heavy
def test_the_page_names_exactly_the_facts_of_the_code_with_their_units() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([\w/]*) *\| ", SECTION.split("\n### facts\n")[1], re.MULTILINE
    )
    assert dict(rows) == facts_in_code()
    assert len(rows) == len(documented("facts")) == len(dict(rows))
