"""`make test` runs every test exactly once, with any markers."""

import re
from itertools import combinations

from tests.builders.places import ROOT
from tests.conftest import LONGEST_FIRST, NOT_FAST, NOT_PURE
from tests.parts.plugin import FILE

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def variable(name: str) -> str:
    found = re.search(rf"^{name} :?= (.+)$", MAKEFILE, re.MULTILINE)
    assert found is not None
    return found[1]


def expressions() -> list[str]:
    """What the recipe of ``make test`` selects by markers."""
    recipe = MAKEFILE[MAKEFILE.index("\ntest: ") :].split("\n\n")[0]
    return [
        re.sub(r"\$\((\w+)\)", lambda found: variable(found[1]), text)
        for text in re.findall(r'-m "([^"]+)"', recipe)
    ]


def test_the_recipe_runs_the_light_part_and_four_others() -> None:
    recipe = MAKEFILE[MAKEFILE.index("\ntest: ") :].split("\n\n")[0]
    assert recipe.count('$(PURE) -m "$(LIGHT)" ') == 1
    assert len(expressions()) == 5


def test_the_summary_names_every_part_in_its_order() -> None:
    recipe = MAKEFILE[MAKEFILE.index("\ntest: ") :].split("\n\n")[0]
    started = re.findall(r"\$\(PART\) (\w+) ", recipe)
    named = re.findall(r"-m tests\.parts ([\w ]+) \|\|", recipe)
    assert [" ".join(started)] == named
    assert len(started) == len(expressions())
    assert f"rm -f {FILE};" in recipe, "the summary holds earlier runs, too"


def runs(part: int, expression: str, values: dict[str, bool]) -> bool:
    """Whether a part of the recipe runs a test with these markers. The first is of PURE."""
    omitted = part == 0 and any(values[name] for name in values.keys() & NOT_PURE)
    return not omitted and bool(eval(expression, {}, values))


def test_every_combination_of_markers_is_in_exactly_one_part() -> None:
    # These tests start real ranks too, and run in environments of their own.
    names = sorted(NOT_FAST - {"tensorflow", "frameworks"})
    for number in range(4):
        for markers in combinations(names, number):
            values = {name: name in markers for name in names}
            parts = [text for part, text in enumerate(expressions()) if runs(part, text, values)]
            assert len(parts) == 1, (markers, parts)


def test_the_light_part_runs_unmarked_tests_and_no_others() -> None:
    values = dict.fromkeys(sorted(NOT_FAST), False)
    assert runs(0, expressions()[0], values)
    for name in sorted(NOT_FAST):
        assert not runs(0, expressions()[0], values | {name: True}), name


def test_every_marker_that_the_fast_part_omits_is_registered() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert {name for name in NOT_FAST if f'  "{name}: ' in pyproject} == NOT_FAST


def test_files_that_are_started_first_exist() -> None:
    names = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(LONGEST_FIRST) <= names
