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


def _modules() -> list[str]:
    return [
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in sorted((ROOT / "hvdprof" / package).rglob("*.py"))
        if path.name != "__init__.py"
    ]


def _mirrored(module: Path) -> list[Path]:
    """The test modules of the same name below the same package."""
    package = module.parts[1]
    return list((ROOT / "tests" / package).rglob(f"test_{module.stem.lstrip('_')}.py"))


def _named(module: Path) -> list[str]:
    """The tests that the docstring of a module names."""
    doc = ast.get_docstring(ast.parse((ROOT / module).read_text(encoding="utf-8")))
    return NAMED.findall(doc or "")


@pytest.mark.parametrize("module", _modules())
def test_a_module_has_a_test_or_names_it(module: str) -> None:
    named = _named(Path(module))
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing, f"{module} names tests that do not exist: {missing}"
    assert named or _mirrored(Path(module)), (
        f"{module} has no test_{Path(module).stem}.py and names no test in its docstring."
    )


def test_the_packages_are_all_there_are() -> None:
    inside = {path.parent.name for path in (ROOT / "hvdprof").glob("*/__init__.py")}
    # Reference models and dashboards are tested by pages and by trainings, not by module.
    assert inside - {"bench_models", "dashboards"} == set(PACKAGES)
