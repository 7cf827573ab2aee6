"""Which tests a change needs, and why the others do not run.

A test file runs where a module that it needs has changed. Tests that start real ranks, networks or
installations are about recording and launching: of what they need, only that part counts. The
layers of ``pyproject.toml`` prove that it imports nothing that reads a run directory.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tests.conftest import file_markers, written_markers
from tests.selection.import_graph import LINKED, Graph, module_of, needed_modules, users

EVERYTHING = (
    *("pyproject.toml", "constraints.txt", "tests/conftest.py", "tests/__init__.py"),
    *("tests/builders/warm_ranks.py", "tests/builders/warm_fork.py"),
    *("tests/builders/lean_start/warm_proxy.py", "tests/builders/lean_start/sitecustomize.py"),
)
"""What every test depends on, or the start of its ranks."""

REAL = frozenset({"horovod", "root", "install", "waits"})
"""Markers of tests that are about recording and launching."""

RECORDING = tuple(
    f"hvdprof.{name}"
    for name in (
        *("collect", "rundir", "launch", "machine", "bench_models"),
        *("errors", "units", "rank_names", "plain_text", "cli.main", "__main__"),
    )
)
"""What records and launches, beside the commands and the API of measuring."""

_SOURCES = ("hvdprof", *LINKED, "benchmarks", "tests", "docs")
_PAGES = {".md", ".png"}
_LISTS_THE_TREE = re.compile(r'glob\("(?:test_)?\*\.py"\)|(?:ROOT|DOCS|\broot)\b[^\n]*glob\(')
"""Tests of how the project is written: they read files that they do not name."""

NOT_NEEDED = "need nothing that changed"
NOT_RECORDING = "start ranks, networks or installations; what records and launches is unchanged"


def starts_ranks(markers: Iterable[str]) -> bool:
    """Whether a test of these markers is about recording and launching."""
    own = set(markers)
    return bool(own & REAL) or {"timing", "torch"} <= own


@dataclass(frozen=True)
class Selection:
    """The tests that a change needs.

    Attributes:
        tests: Files whose tests without real ranks run.
        real: Files whose tests with real ranks run.
        left_out: Number of files by the reason why they do not run, or not whole.
        causes: Number of test files that each changed file selects.
        whole: Changed files for which everything runs.
    """

    tests: frozenset[str]
    real: frozenset[str]
    left_out: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    whole: tuple[str, ...] = ()


def read_sources(root: Path) -> dict[str, str]:
    """The text of all Python files that tests run, by path from the root."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for name in _SOURCES
        for path in sorted((root / name).rglob("*.py"))
    }


def select(root: Path, changed: Iterable[str]) -> Selection:
    """The tests that the changed files of a repository need."""
    sources = read_sources(root)
    return selection(changed, sources, needed_modules(root, sources))


def selection(changed: Iterable[str], sources: dict[str, str], graph: Graph) -> Selection:
    """The tests that changed files need.

    Args:
        changed: Paths from the root, also of files that are gone.
        sources: Text by path of all Python files.
        graph: What each of them needs.
    """
    tests = {
        module_of(path): path for path in sources if PurePosixPath(path).name.startswith("test_")
    }
    recording = recording_modules(graph)
    parts = {path: placed(path, sources, graph) for path in changed}
    whole = tuple(path for path, modules in parts.items() if modules is None)
    if whole:
        every = frozenset(tests.values())
        return Selection(every, every, whole=whole)
    needed: set[str] = set()
    causes: Counter[str] = Counter()
    for path, modules in parts.items():
        found = users(graph, modules) & set(tests)
        causes[path] = len(found)
        needed |= {tests[name] for name in found}
    touching = {
        name
        for modules in parts.values()
        for name in modules
        if not name.startswith("hvdprof") or name in recording
    }
    real = {tests[name] for name in users(graph, touching) & set(tests)}
    if parts:
        needed |= {path for path in tests.values() if _LISTS_THE_TREE.search(sources[path])}
    if "Makefile" in parts:
        real = set(tests.values())
    return _by_kind(sorted(tests.values()), needed, real, sources, causes)


def _by_kind(
    every: Iterable[str],
    needed: set[str],
    real: set[str],
    sources: dict[str, str],
    causes: Counter[str],
) -> Selection:
    """Which files run without, and which with their real ranks; and why the others do not."""
    light, heavy = set(), set()
    left_out: Counter[str] = Counter()
    for path in every:
        may_start = starts_ranks(written_markers(sources[path]))
        if path in needed and not starts_ranks(file_markers(sources[path])):
            light.add(path)
        if path in real and may_start:
            heavy.add(path)
        elif path in needed and may_start:
            left_out[NOT_RECORDING] += 1
        elif path not in needed:
            left_out[NOT_NEEDED] += 1
    return Selection(frozenset(light), frozenset(heavy), left_out, causes)


def recording_modules(graph: Graph) -> set[str]:
    """The modules that record and launch, and the API and the commands of measuring."""
    recording = {
        name for name in graph if name.startswith(tuple(f"{one}." for one in RECORDING))
    } | (set(RECORDING) & set(graph))
    api = {
        name
        for name in graph
        if name.startswith("hvdprof.api.")
        and any(needed.startswith("hvdprof.launch") for needed in graph[name])
    }
    commands = {name for name in graph if name.startswith("hvdprof.cli.") and graph[name] & api}
    return recording | api | commands


def placed(path: str, sources: dict[str, str], graph: Graph) -> set[str] | None:
    """The modules that a changed file is, or is read by; ``None`` where that is unknown."""
    file = PurePosixPath(path)
    if path in EVERYTHING:
        return None
    if path in sources:
        return {module_of(path)}
    if file.suffix == ".py" and file.parts[0] in _SOURCES:
        return _importers_of_gone(path, sources)
    if file.parts[0] in ("hvdprof", *LINKED):
        # Templates, styles and lists: of the package that they lie in.
        return _in_package(file, graph) | _readers([file.name], sources)
    pages = {module_of(one) for one in sources if one.startswith("tests/docs/test_")}
    if file.parts[0] == "tests":
        found = _readers(_data_names(file, sources), sources)
        return (found | pages if file.name == "README.md" else found) or None
    if file.suffix in _PAGES or file.parts[0] == "docs" or path == "mkdocs.yml":
        return pages | _readers([file.name], sources)
    return _readers([path], sources) or None


def _importers_of_gone(path: str, sources: dict[str, str]) -> set[str]:
    """Modules whose text holds the name of one that is there no more."""
    module = module_of(path)
    package, _, name = module.rpartition(".")
    imported = rf"from {re.escape(package)} import (?:\([^)]*|[^\n(]*)\b{name}\b"
    gone = re.compile(f"{re.escape(module)}|{imported}")
    return {module_of(one) for one, text in sources.items() if name in text and gone.search(text)}


def _in_package(file: PurePosixPath, graph: Graph) -> set[str]:
    for folder in file.parents:
        package = module_of(folder.as_posix()) if folder.parts else ""
        found = {name for name in graph if name.rpartition(".")[0] == package}
        if found:
            return found
    return set()


def _data_names(file: PurePosixPath, sources: dict[str, str]) -> list[str]:
    """The names by which tests may find a file: its own, and those of its folders of data."""
    code = {folder for path in sources for folder in PurePosixPath(path).parents}
    folders = [folder.name for folder in file.parents if folder not in code]
    stem = file.name.split(".")[0]
    return [file.name, stem, *folders] if re.search(r"[\d_-]", stem) else [file.name, *folders]


def _readers(names: list[str], sources: dict[str, str]) -> set[str]:
    """The tests and their builders whose text holds one of these names."""
    quoted = "|".join(rf"[\"'/]{re.escape(name)}(?=[\"'/.])" for name in names)
    words = re.compile(rf"{quoted}|\b(?:{'|'.join(re.escape(name.upper()) for name in names)})\b")
    return {
        module_of(path)
        for path, text in sources.items()
        # Its constants are the names that are looked for.
        if path.startswith(("tests/", "benchmarks/", "docs/"))
        and path != "tests/builders/places.py"
        and any(name in text or name.upper() in text for name in names)
        and words.search(text)
    }
