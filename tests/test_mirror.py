"""Every module is tested: by a test of its name, by one that imports it, or through its folder."""

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
    "live",
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


def _imported(source: str) -> set[Path]:
    """The modules of hvdprof that a text imports by name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hvdprof"):
            module = Path(*str(node.module).split("."))
            found.add(module.with_suffix(".py"))
            found |= {module / f"{alias.name}.py" for alias in node.names}
    return found


@pytest.mark.heavy
def test_a_module_has_a_test_or_names_it() -> None:
    """One without both is imported by a test, or by a module of its folder that has a test."""
    modules = _modules()
    files = sorted((ROOT / "tests").rglob("*.py"))
    tests = {
        package: {path.stem for path in (ROOT / "tests" / package).rglob("test_*.py")}
        for package in PACKAGES
    }
    named = {module: _named(module) for module in modules}
    wrong = [
        f"{module} names a test that does not exist: {name}"
        for module, names in named.items()
        for name in names
        if not (ROOT / name).exists()
    ]
    used = set().union(*(_imported(path.read_text(encoding="utf-8")) for path in files))
    tested = {
        module
        for module in modules
        if named[module]
        or module in used
        or f"test_{module.stem.lstrip('_')}" in tests[module.parts[1]]
    }
    imports = {module: _imported((ROOT / module).read_text(encoding="utf-8")) for module in modules}
    fresh = tested
    while fresh:
        reached = {
            used for module in fresh for used in imports[module] if used.parent == module.parent
        }
        fresh = reached & (set(modules) - tested)
        tested |= fresh
    wrong += [
        f"{module} has no test of its name, names none, and no tested module beside it imports it."
        for module in modules
        if module not in tested
    ]
    assert wrong == []


def test_the_packages_are_all_there_are() -> None:
    inside = {path.parent.name for path in (ROOT / "hvdprof").glob("*/__init__.py")}
    # Reference models and dashboards are tested by pages and by trainings, not by module.
    assert inside - {"bench_models", "dashboards"} == set(PACKAGES)
