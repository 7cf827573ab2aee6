"""`make test` runs every test exactly once, with any markers."""

import re
from itertools import combinations

from tests.builders.places import ROOT
from tests.conftest import LONGEST_FIRST, NOT_FAST, NOT_PURE

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


def test_the_recipe_runs_the_pure_part_and_four_others() -> None:
    recipe = MAKEFILE[MAKEFILE.index("\ntest: ") :].split("\n\n")[0]
    assert recipe.count("$(PURE) ") == 1
    assert len(expressions()) == 4


def test_every_combination_of_markers_is_in_exactly_one_part() -> None:
    # These tests start real ranks too, and run in environments of their own.
    names = sorted(NOT_PURE - {"tensorflow", "frameworks"})
    for number in (1, 2, 3):
        for markers in combinations(names, number):
            values = {name: name in markers for name in names}
            parts = [text for text in expressions() if eval(text, {}, values)]
            assert len(parts) == 1, (markers, parts)


def test_the_pure_part_omits_what_another_part_runs() -> None:
    values = dict.fromkeys(sorted(NOT_PURE), False)
    assert not any(eval(text, {}, values) for text in expressions())


def test_every_marker_that_the_fast_part_omits_is_registered() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert {name for name in NOT_FAST if f'  "{name}: ' in pyproject} == NOT_FAST


def test_files_that_are_started_first_exist() -> None:
    names = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(LONGEST_FIRST) <= names
