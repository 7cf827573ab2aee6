"""Every module has a test of its own name, or its docstring names the test that covers it."""

import ast
import re
from pathlib import Path

import pytest

from tests.builders.places import ROOT

PACKAGES = (
    "analyze",
    "api",
    "cli",
    "collect",
    "figures",
    "ingest",
    "launch",
    "machine",
    "model",
    "report",
    "rundir",
)

NAMED = re.compile(r"tests/[\w/]+(?:\.py)?")


def _modules() -> list[Path]:
    return [
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in sorted((ROOT / "hvdprof" / package).rglob("*.py"))
        if path.name != "__init__.py"
    ]


def _named(module: Path) -> list[str]:
    """The tests that the docstring of a module names."""
    doc = ast.get_docstring(ast.parse((ROOT / module).read_text(encoding="utf-8")))
    return NAMED.findall(doc or "")


@pytest.mark.heavy
def test_a_module_has_a_test_or_names_it() -> None:
    tests = {
        package: {path.stem for path in (ROOT / "tests" / package).rglob("test_*.py")}
        for package in PACKAGES
    }
    wrong = []
    for module in _modules():
        named = _named(module)
        wrong += [
            f"{module} names a test that does not exist: {name}"
            for name in named
            if not (ROOT / name).exists()
        ]
        # The test modules of the same name below the same package.
        own = f"test_{module.stem.lstrip('_')}"
        if not named and own not in tests[module.parts[1]]:
            wrong.append(f"{module} has no {own}.py and names no test in its docstring.")
    assert wrong == []


def test_the_packages_are_all_there_are() -> None:
    inside = {path.parent.name for path in (ROOT / "hvdprof").glob("*/__init__.py")}
    # Reference models and dashboards are tested by pages and by trainings, not by module.
    assert inside - {"bench_models", "dashboards"} == set(PACKAGES)
