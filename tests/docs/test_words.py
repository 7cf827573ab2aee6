"""The words that users and contributors read are those of the field.

Each pattern stands for a phrase that an ML engineer would have to decode, with what to write
instead. Searched: texts of the code (strings, docstrings, comments), names in the code, templates
and pages. What other programs print (samples, recordings) is not ours.
"""

import ast
import hashlib
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from tests.builders.places import ROOT

PHRASES: dict[str, str] = {
    r"\b(told|tells?|telling)\b(?! CMake where)": "report, show, name, say which",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\b(gets?|got|getting) on\b": "makes progress",
    r"\bgo(es)? on\b": "continues; resume with",
    r"\b(no|some)body('s)?\b": "name the rank, the pass, the file, the user",
    r"\broads?\b": "path (fast path, slow path)",
    r"\blone\b": "standalone",
    r"\b(ns|µs|us|ms|s|seconds?|MB|GB|MiB|GiB|kB|bytes|times|samples|points|%) an? "
    r"(step|rank|second|thread|pass|launch|host|process|event|GPU|core|byte)\b": "per step",
    r"\b(threads?|ranks?|processes|cores?|events?|steps?|batch(es)?|samples|bytes|rows?|work|"
    r"launch(es)?|point|tensors?) "
    r"an? (step|rank|second|thread|launch|host|GPU|core|event|pair)\b": "per rank",
    r"\b(stand|stands|stood|standing) still\b": "blocked, stalled; exposed communication",
    r"\bwhat (looking|observing|observation) costs?\b": "trace overhead",
    r"\bwhat looking\b": "trace overhead",
    r"\bworth \S+ independent\b": "effective sample size",
    r"\b(leave|left|leaves) (it|them) away\b": "omit",
    r"\bblam(e|es|ed|ing)\b": "wait caused, straggler",
    r"\blate ranks?\b": "straggler",
    r"\bslow by turns\b|\blate by turns\b": "rotating stragglers (jitter)",
    r"\bhand(s|ed)? over\b|\bhandover\b": "submit; reduction backend",
    r"\bby itself measured\b|\bno better than a tenth\b": "95 % CI wider than ±10 %",
    r"\bare in no number\b": "failed and excluded",
    r"\bslower own work\b": "compute slowdown",
    r"\bskipped or odd\b": "warnings",
    r"\bown words\b": "",
    r"\ba word (while|about)\b": "hint",
    r"\bas far as (it|that) (goes|is known)\b": "",
    r"\bat rest\b": "quiescent",
    r"\bwhoever\b|\bwhatever\b": "name it",
    r"\b(takes?|taken) up again\b": "resume",
    r"\bput wrong\b": "skewed",
    r"\bcomes? down to\b|\bcame down to\b": "verdict, summary",
    r"\bat hand\b": "",
    r"\bwrappers?\b": "log prefix",
    r"\bsurroundings\b": "host conditions, provenance",
    r"\bbrackets?\b(?! (and|or) )": "guarded context, hook",
    r"\bthe door (to|of)\b|\bonly door\b|\bone door\b": "entry point",
}
"""Pattern to what the field writes; matched without case."""

NAMES = re.compile(
    r"^(roads?|told|tells?|hear|mend(s|ed)?|blame[sd]?|lone|kept|handover|surroundings|brackets|"
    r"gathered|quiet|presumed)$"
)
"""Parts of names in code (split at underscores) that readers would have to decode."""

FOLDERS = (
    *(
        f"hvdprof/{name}"
        for name in (
            "analyze",
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
            "api",
            "errors.py",
            "units.py",
        )
    ),
    "dashboards",
    "bench_models",
    "benchmarks",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "tests",
)

GAP = r"(?:[^\S\n]+|[^\S\n]*\n[^\S\n]*)"
"""Between two words of a phrase: blanks or one line break, but no empty line."""

SEARCHES = [
    (re.compile(pattern.replace(" ", GAP), re.IGNORECASE), instead)
    for pattern, instead in PHRASES.items()
]

SEPARATOR = "\0"
"""Between two texts of a file; no phrase reaches over it."""

SAMPLES = ("samples", "recordings", "generated")


def _texts(nodes: list[ast.AST], source: str) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    if "#" not in source:
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _names(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def _files(folder: str) -> list[Path]:
    root = ROOT / folder
    found = [root] if root.is_file() else sorted(root.rglob("*"))
    return [
        path
        for path in found
        if path.suffix in {".py", ".md", ".j2"}
        and not any(part in SAMPLES for part in path.relative_to(ROOT).parts)
        and path.name != "test_words.py"
    ]


def _parts_of(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def dialect(path: Path, root: Path = ROOT) -> Iterator[str]:
    """Each use of a phrase or name in the file: place, what stands there, what to write."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        nodes = list(ast.walk(ast.parse(source)))
        texts = list(_texts(nodes, source))
        for line, name in _names(nodes):
            found = [part for part in _parts_of(name) if NAMES.match(part)]
            if found:
                yield f"{path.relative_to(root)}:{line}: name {name!r} ({', '.join(found)})"
    else:
        texts = [(1, source)]
    # One search for all texts of a file: most of the time goes into starting a search.
    joined = SEPARATOR.join(text for _, text in texts)
    starts = [0, *accumulate(len(text) + len(SEPARATOR) for _, text in texts)]
    for pattern, instead in SEARCHES:
        for match in pattern.finditer(joined):
            number = bisect_right(starts, match.start()) - 1
            line = texts[number][0] + joined.count("\n", starts[number], match.start())
            yield f"{path.relative_to(root)}:{line}: {match[0]!r}; write: {instead}"


@pytest.mark.heavy
@pytest.mark.parametrize("folder", FOLDERS)
def test_texts_use_the_words_of_the_field(folder: str, pytestconfig: pytest.Config) -> None:
    # What was right under these very rules is right again: most files do not change.
    rules = hashlib.sha1(Path(__file__).read_bytes()).hexdigest()
    place = f"hvdprof/words/{rules}/{folder}"
    before = set(pytestconfig.cache.get(place, []))
    right, found = [], []
    for path in _files(folder):
        content = hashlib.sha1(path.read_bytes()).hexdigest()
        own = [] if content in before else list(dialect(path))
        found += own
        right += [] if own else [content]
    pytestconfig.cache.set(place, right)
    assert not found, "\n".join(found)


def test_a_phrase_is_found_in_every_kind_of_text(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text('"""Somebody is\ntold."""\n\n# what mends it\nROAD = "5 ms a step"\n')
    places = sorted(re.sub(r"^.*?sample.py:", "", line) for line in dialect(path, tmp_path))
    assert [place.split(":")[0] for place in places] == ["1", "2", "4", "5", "5"]


if __name__ == "__main__":
    import sys

    for folder in sys.argv[1:] or FOLDERS:
        for path in _files(folder):
            for line in dialect(path):
                sys.stdout.write(f"{line}\n")
