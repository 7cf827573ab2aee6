"""Annotations say what a value is: ``Any`` is left for what other libraries do not type."""

import ast
import re

from tests.builders.places import ROOT

PACKAGES = ("hvdprof", "dashboards", "bench_models", "benchmarks")
MOST = 150


def test_few_annotations_are_any() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(files) > 400
    names = [
        path.relative_to(ROOT)
        for path in files
        # Parsing is slow, and most files do not have the word.
        if re.search(r"\bAny\b", text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name) and node.id == "Any"
    ]
    assert len(names) <= MOST, names
