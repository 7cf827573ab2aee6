"""Notes are asked for by their codes; what they say is shown, and read back by nothing."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from hvdprof.model.notes import Note, NoteCode, notes_frame, notes_in, texts
from hvdprof.model.tables.log_tables import NOTES
from tests.builders.places import ROOT

_PACKAGES = ("hvdprof", "dashboards")
_HOME = ROOT / "hvdprof" / "model" / "notes.py"
_NOTES = {"notes", "warning_notes", "caveats", "problems", "clauses"}
_TEXT_METHODS = {"startswith", "endswith", "partition", "rpartition", "removeprefix", "split"}

PLAN = Note(NoteCode.FAULTS_INJECTED, "faults", "p", rank=1, value="sleep:rank=1")
TAIL = Note(NoteCode.NEVER_END, "3 events never end", number=3)


def _sources() -> Iterator[tuple[Path, ast.Module]]:
    for package in _PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if path != _HOME and ("notes" in text or "caveats" in text or "NoteCode" in text):
                yield path, ast.parse(text)


def _codes(tree: ast.AST) -> set[str]:
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == NoteCode.__name__
    }


def _asked_for(tree: ast.AST) -> list[ast.AST]:
    """Comparisons, and tuples of nothing but codes that comparisons read."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        or (
            isinstance(node, ast.Tuple)
            and node.elts
            and all(isinstance(one, ast.Attribute) and _codes(one) for one in node.elts)
        )
    ]


def _emitted(tree: ast.Module) -> set[str]:
    skipped = {id(inner) for node in _asked_for(tree) for inner in ast.walk(node)}
    return {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and id(node) not in skipped
        for name in _codes(ast.Expression(node))
        if node.attr == name
    }


def _names(node: ast.AST) -> set[str]:
    return {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def _read_back(tree: ast.AST) -> list[str]:
    """Expressions that look into sentences of notes: ``"x" in note``, ``note.text.partition``."""
    found = []
    of_notes = {
        one.target.id
        for one in ast.walk(tree)
        if isinstance(one, ast.comprehension | ast.For)
        and isinstance(one.target, ast.Name)
        and _names(one.iter) & _NOTES
    }
    for node in ast.walk(tree):
        looked_at: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            is_within = isinstance(node.ops[0], ast.In | ast.NotIn)
            looked_at = [*([] if is_within else [node.left]), *node.comparators]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _TEXT_METHODS
        ):
            looked_at = [node.func.value]
        for one in looked_at:
            whole = isinstance(one, ast.Name) and one.id in of_notes
            text = isinstance(one, ast.Attribute) and one.attr == "text"
            if text and isinstance(one, ast.Attribute):
                text = isinstance(one.value, ast.Name) and one.value.id in of_notes
            found += [ast.unparse(node)] if whole or text else []
    return found


@pytest.mark.parametrize("note", [PLAN, TAIL])
def test_a_table_holds_all_of_a_note(note: Note) -> None:
    frame = notes_frame([note, PLAN])
    assert list(frame.columns) == NOTES.column_names
    assert notes_in(frame) == (note, PLAN)
    assert notes_in(notes_frame([])) == ()


def test_a_clause_becomes_a_sentence_of_its_place() -> None:
    placed = TAIL.at("p: timeline of s", "p", [3])
    assert (placed.text, placed.pass_id, placed.rank, placed.number) == (
        "p: timeline of s: 3 events never end.", "p", 3, 3
    )  # fmt: skip
    assert TAIL.at("s.json", ranks=[0, 1]) == Note(
        NoteCode.NEVER_END, "s.json: 3 events never end.", number=3
    )
    assert texts([placed.at("a")]) == ("a: p: timeline of s: 3 events never end.",)


def test_each_code_has_a_sentence_of_its_own() -> None:
    docs = [code.doc for code in NoteCode]
    assert len(set(docs)) == len(docs)
    assert [doc for doc in docs if not doc.endswith(".") or len(doc) > 80] == []
    assert [code for code in NoteCode if NoteCode(str(code)) is not code] == []


@pytest.mark.heavy
def test_each_code_is_emitted_and_known() -> None:
    emitted = {name for _, tree in _sources() for name in _emitted(tree)}
    assert emitted == set(NoteCode.__members__)


def test_a_code_that_is_asked_for_alone_is_not_emitted() -> None:
    tree = ast.parse(
        "found = [one for one in run.notes if one.code == NoteCode.A]\nB = (NoteCode.C,)"
    )
    assert _emitted(tree) == set()
    assert _emitted(ast.parse("yield_ = Note(NoteCode.A, 'x')")) == {"A"}


@pytest.mark.heavy
def test_no_reader_looks_into_a_sentence() -> None:
    found = {path.name: lines for path, tree in _sources() if (lines := _read_back(tree))}
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        '[one for one in run.notes if " never end" in one]',
        "[one for one in run.notes if 'x' in one.text]",
        "[one.text.partition(': ')[2] for one in evidence.run.notes]",
        "for one in answer.caveats:\n    one.text.startswith('Other')",
        "[one for one in run.notes if one.text == 'x']",
    ],
)
def test_a_reader_that_does_is_found(source: str) -> None:
    assert _read_back(ast.parse(source))
