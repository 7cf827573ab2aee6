"""What each module of the repository needs when it runs: what it imports, starts or names.

The imports come from grimp, which import-linter brings. It misses three kinds, which are added
here: a package runs before its modules, names of modules stand in strings, and a module with a
``__getattr__`` imports the module of a name when that is used first. A ``sitecustomize`` runs where
its folder is in the path of a process.
"""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import grimp

Graph = dict[str, set[str]]
"""The modules that each module needs directly."""

ROOTS = ("hvdprof", "tests", "benchmarks")
LINKED = ("dashboards", "bench_models")
"""Folders that are imported as packages of hvdprof."""

_NAME = re.compile(r"""["']((?:hvdprof|tests|benchmarks|docs)(?:\.\w+)+)[:"']""")
_PACKAGE_OF_NAME = re.compile(r"""["'](hvdprof(?:\.\w+)*)\.\{""")
_COMMAND = re.compile(r"""["']-m["'], ["']hvdprof["']|["']hvdprof["'], \*arguments""")
_SCRIPT = re.compile(r"""["'/ ](\w+\.py)["' ]""")


def module_of(path: str) -> str:
    """The name under which a Python file of the repository is imported."""
    parts = Path(path).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(("hvdprof", *parts) if parts[0] in LINKED else parts)


def needed_modules(root: Path, sources: dict[str, str]) -> Graph:
    """The direct needs of every module of the repository.

    Args:
        root: The repository, which is in ``sys.path``.
        sources: Text by path from the root, of all its Python files.
    """
    texts = {module_of(path): text for path, text in sources.items()}
    graph = _imports(root)
    scripts = {
        Path(path).name: module_of(path)
        for path in sources
        if path.startswith(("tests/builders/", "benchmarks/scripts/"))
    }
    lazy = {
        module: owners
        for module, text in texts.items()
        if "\ndef __getattr__(" in text and (owners := _owners(text))
    }
    for module, needed in graph.items():
        text = texts.get(module, "")
        if module not in lazy:
            needed |= _named(module, text, graph)
        if not module.startswith("hvdprof"):
            needed |= {scripts[name] for name in _SCRIPT.findall(text) if name in scripts}
        for provider in needed & set(lazy):
            needed |= _used(text, provider, lazy[provider])
        for one in (module, *needed):
            needed |= {parent for parent in _parents(one) if parent in graph}
        needed &= set(graph)
        needed.discard(module)
    return graph


def users(graph: Graph, modules: Iterable[str]) -> set[str]:
    """The modules that need one of these, directly or not, and these."""
    direct: dict[str, list[str]] = {}
    for module, needed in graph.items():
        for one in needed:
            direct.setdefault(one, []).append(module)
    found = set(modules)
    open_ends = list(found)
    while open_ends:
        for module in direct.get(open_ends.pop(), ()):
            if module not in found:
                found.add(module)
                open_ends.append(module)
    return found


def _imports(root: Path) -> Graph:
    # Folders of tests are no packages: each is named.
    folders = {path.parent for path in (root / "tests").rglob("*.py")} | {root / "docs"}
    names = [".".join(folder.relative_to(root).parts) for folder in sorted(folders)]
    found = grimp.build_graph(
        *ROOTS,
        *(name for name in names if name not in ROOTS),
        exclude_type_checking_imports=True,
        cache_dir=None,
    )
    return {module: found.find_modules_directly_imported_by(module) for module in found.modules}


def _parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _named(module: str, text: str, graph: Graph) -> set[str]:
    """Modules that stand in strings, for ``importlib`` or as what a process runs."""
    named = {name for name in _NAME.findall(text) if name in graph}
    packages = set(_PACKAGE_OF_NAME.findall(text))
    named |= {name for name in graph if name.rpartition(".")[0] in packages}
    named |= {f"{module}.sitecustomize"} & set(graph)
    if _COMMAND.search(text):
        named.add("hvdprof.__main__")
    return named - {module}


def _owners(text: str) -> dict[str, str]:
    """The module of each name that a module imports late: declared for type checkers."""
    blocks = [
        statement
        for statement in ast.parse(text).body
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
    ]
    return {
        alias.asname or alias.name: statement.module or ""
        for block in blocks
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def _used(text: str, provider: str, owners: dict[str, str]) -> set[str]:
    """The modules behind the names that a module takes from one that imports late."""
    package, _, last = provider.rpartition(".")
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module=module) if module == provider:
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=module) if module == package:
                if any(alias.name == last for alias in node.names):
                    names |= set(re.findall(r"\.(\w+)", text))
            case ast.Import() if any(alias.name == provider for alias in node.names):
                names |= set(re.findall(r"\.(\w+)", text))
    return {owners[name] for name in names if name in owners}
