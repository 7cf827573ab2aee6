"""A plugin of pytest that omits the tests that ``--selection`` does not hold.

``make test-changed`` passes it to the parts of ``make test`` by ``PYTEST_ADDOPTS``.
"""

import json
import os
from pathlib import Path

import pytest

from tests.selection.selected_tests import Selection, starts_ranks

_SELECTED = pytest.StashKey[dict[str, frozenset[Path]]]()


def write_selection(selection: Selection, file: Path) -> None:
    """Write the paths that the plugin reads."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"tests": sorted(selection.tests), "real": sorted(selection.real)}
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--selection", type=Path, help="run only the tests that this file names")


def pytest_configure(config: pytest.Config) -> None:
    content = json.loads(config.getoption("--selection").read_text(encoding="utf-8"))
    config.stash[_SELECTED] = {
        kind: frozenset(config.rootpath / path for path in paths) for kind, paths in content.items()
    }


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Omit whole files: their import takes time."""
    if collection_path.suffix != ".py":
        return None
    selected = config.stash[_SELECTED]
    return collection_path not in selected["tests"] | selected["real"] or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Omit tests with real ranks where only the others of their file are needed, and vice versa."""
    # Workers of xdist have read it by now. Tests that start pytest run tests of their own.
    os.environ.pop("PYTEST_ADDOPTS", None)
    selected = config.stash[_SELECTED]
    omitted = [
        item
        for item in items
        if item.path
        not in selected[
            "real" if starts_ranks(mark.name for mark in item.iter_markers()) else "tests"
        ]
    ]
    config.hook.pytest_deselected(items=omitted)
    items[:] = [item for item in items if item not in set(omitted)]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A part of which nothing is needed has not failed."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
