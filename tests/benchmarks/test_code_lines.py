"""Scripts with bugs on known lines: what is written is what is judged."""

import ast
import json
from pathlib import Path

import pytest

from benchmarks import code_lines
from benchmarks.code_lines import Judged, judged, page_text, scripts
from benchmarks.line_draw import ENGINES, SITES, Script, draw
from benchmarks.line_script import write


def text_of(folder: Path, place: str) -> str:
    """The line of a place, ``file:line``."""
    name, number = place.split(":")
    (path,) = folder.rglob(name)
    return path.read_text(encoding="utf-8").splitlines()[int(number) - 1]


@pytest.mark.parametrize("seed", range(20))
def test_a_script_has_its_bug_where_it_says(tmp_path: Path, seed: int) -> None:
    script = draw(seed)
    written = write(script, tmp_path / "own")
    clean = write(script.clean(), tmp_path / "clean")

    assert text_of(tmp_path / "own", written.bug).endswith("# bug")
    assert len(written.usual) == 5
    assert all("time.sleep" in text_of(tmp_path / "own", line) for line in written.usual)
    assert (clean.bug, clean.usual) == (written.bug, written.usual)
    for path in (tmp_path / "own").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        ast.parse(text)
        twin = tmp_path / "clean" / path.relative_to(tmp_path / "own")
        assert (twin.read_text(encoding="utf-8") == text) is (path.name != "lost.py")


def test_twenty_seeds_have_each_place_under_both_engines() -> None:
    drawn = {(one.site, one.engine) for one in map(draw, range(1234, 1254))}
    assert drawn == {(site, engine) for site in SITES for engine in ENGINES}


def test_every_second_script_has_a_twin() -> None:
    ranks = [one.rank < 0 for one in scripts(7, 4)]
    assert ranks == [False, True, False, False, True, False]


def found(
    monkeypatch: pytest.MonkeyPatch, script: Script, folder: Path, headline: str, *findings: str
) -> Judged:
    """What is judged of first lines, and of findings with a cause and a line each."""
    rows = []
    for text in findings:
        cause, file, line = text.split(":")
        place = {"code_file": f"/x/{file}", "code_line": int(line), "code_function": "f"}
        rows.append({"id": "some", "cause_id": cause, **place})
    report = {"verdict": {"sentence": headline}, "findings": rows}
    monkeypatch.setattr(code_lines, "output", lambda *_: json.dumps(report))
    return judged(script, folder, write(script, folder))


def test_a_line_is_right_in_the_first_lines_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = draw(3)
    bug = write(script, tmp_path).bug
    cause = f"straggler/{script.rank}/forward/persistent:{bug}"
    first = f"straggler (rank {script.rank}, forward phase), 9 ms per step: {bug} (f)"
    right = found(monkeypatch, script, tmp_path, first, cause)
    behind = found(monkeypatch, script, tmp_path, f"straggler (rank {script.rank})", cause)
    other = found(monkeypatch, script, tmp_path, "No large loss", cause)

    assert (right.cause, right.line, right.is_missed) == (True, True, False)
    assert (behind.cause, behind.line, behind.is_missed) == (True, False, True)
    assert not other.cause


def test_a_twin_may_name_lines_where_all_ranks_spend_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = draw(3).clean()
    usual = min(write(script, tmp_path).usual)
    true = found(monkeypatch, script, tmp_path, "No large loss", f"input-bound:{usual}")
    rank = found(
        monkeypatch, script, tmp_path, "No large loss", f"straggler/1/data/persistent:{usual}"
    )
    false = found(monkeypatch, script, tmp_path, "No large loss", "input-bound:net.py:1")

    assert [one.is_missed for one in (true, rank, false)] == [False, True, True]
    for one in (true, rank):
        (tmp_path / one.script.name).mkdir(exist_ok=True)
        (tmp_path / one.script.name / "done").write_text("2026-11-28")
    page = page_text([true, rank], tmp_path)
    assert "| all | 0 | 0 | 0 | 2 | 1 | 1 |" in page
    assert "lines accused without a bug 1 of 2: 9% to 91%" in page
