"""What was run where: the rows that tests declare by ``@pytest.mark.ran(what, with, on)``.

Read from the source, so that a row stands in the manual as long as its test is there.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARKER = "ran"
_RUN_BY = {
    "tensorflow": "`make test-tensorflow`",
    "frameworks": "`make test-frameworks`",
    "gpu": "`make gpu-check`",
    "root": "tests, as root",
}
_ALWAYS = "tests, every time"


@dataclass(frozen=True, slots=True)
class Ran:
    """A row: what was run, with what, on what, the test that does it, and who starts the test."""

    what: str
    with_what: str
    on_what: str
    test: str
    run_by: str


def ran_where(tests: Path) -> list[Ran]:
    """The rows of all tests below a folder, by file and place in it.

    Raises:
        ValueError: A marker does not hold three texts.
    """
    return [row for path in sorted(tests.rglob("test_*.py")) for row in _rows(path, tests)]


def ran_table(rows: list[Ran]) -> str:
    """The rows as a Markdown table."""
    lines = ["| what | with | on | test | run by |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.what} | {row.with_what} | {row.on_what} | `{row.test}` | {row.run_by} |"
        for row in rows
    ]
    return "\n".join(lines)


def _rows(path: Path, tests: Path) -> Iterator[Ran]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    of_file = {
        name
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for name, _ in _marks(node.value)
    }
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        marks = [mark for node in function.decorator_list for mark in _marks(node)]
        names = of_file | {name for name, _ in marks}
        run_by = next((text for name, text in _RUN_BY.items() if name in names), _ALWAYS)
        for name, call in marks:
            if name == MARKER:
                yield Ran(*_texts(call, path), str(path.relative_to(tests)), run_by)


def _marks(node: ast.AST) -> Iterator[tuple[str, ast.Call | None]]:
    """The ``pytest.mark.NAME`` in an expression, each with its call where it has one."""
    calls = {id(one.func): one for one in ast.walk(node) if isinstance(one, ast.Call)}
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "pytest.mark":
            yield one.attr, calls.get(id(one))


def _texts(call: ast.Call | None, path: Path) -> tuple[str, str, str]:
    values = [node.value for node in (call.args if call else ()) if isinstance(node, ast.Constant)]
    if len(values) != 3 or not all(isinstance(value, str) for value in values):
        raise ValueError(
            f"{path}: pytest.mark.{MARKER} takes three texts: what, with what, on what"
        )
    what, with_what, on_what = map(str, values)
    return what, with_what, on_what
